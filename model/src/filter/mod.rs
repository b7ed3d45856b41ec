// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter language of `--filter`. A connection must fulfil all terms; `!` negates a term. A comparison with an unknown value is false.
//!
//! `peer:10.0/16 proc:nginx rate>1M !state:close`

mod parse;
mod term;
mod value;

use std::fmt;

use crate::flow::connection::Connection;
pub use parse::{FilterError, completions};
use term::Term;

/// Description of the filter language for help texts.
pub const HELP: &str = "\
Terms are separated by spaces and must all hold; !TERM negates.
  peer:10.0/16  local:fd00::/8   an address or a network
  port:443                       local or remote port
  proc:nginx                     part of the name of the process, or its pid
  iface:eth1  netns:blue         parts of names; also cgroup:/user.slice
  pod:shop/web                   part of NAMESPACE/POD/CONTAINER
  proc:=nginx  iface:eth*        the whole name: after =, or with * and ?
  id:5c11a0e2                    prefix of the id or the token
  state:established              or close, syn_sent, ...
  role:client  class:long        or server; query, short
  rate>1M  bytes>=10G            bit/s and bytes, with k, M, G, T
  rtt>20ms                       smoothed RTT of any open subflow, in us, ms or s
  subflows<2                     open subflows
  shared                         at least two subflows share a bottleneck
  failed                         a path failed, even if it works again
  mptcp tcp fallback open closed stale";

/// A parsed filter. `Display` prints it as text that parses to the same filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    terms: Vec<Term>,
}

impl Filter {
    /// Parses a filter. An empty text matches all connections.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Ok(Self { terms: parse::terms(text)? })
    }

    /// Whether a connection matches.
    pub fn matches(&self, connection: &Connection) -> bool {
        self.terms.iter().all(|term| term.test.holds(connection) != term.negated)
    }
}

impl std::str::FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let blank = if index > 0 { " " } else { "" };
            let sign = if term.negated { "!" } else { "" };
            write!(f, "{blank}{sign}{}", term.test)?;
        }
        Ok(())
    }
}
