// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter language of `--filter`. A connection is shown if all terms hold; `!` negates a term. A comparison with an unknown value
//! does not hold.
//!
//! `peer:10.0/16 proc:nginx rate>1M !state:close`

mod parse;
mod value;

use std::fmt;
use std::net::IpAddr;

use crate::connection::Connection;
use crate::flow_class::FlowClass;
use crate::lifecycle::{Protocol, Role, TcpState};
pub use parse::FilterError;
use value::{Network, Pattern, Quantity};

/// The filter language, for help texts.
pub const HELP: &str = "\
Terms are separated by spaces and must all hold; !TERM negates.
  peer:10.0/16  local:fd00::/8   an address or a network
  port:443                       local or remote port
  proc:nginx                     name (with * and ?) or pid of the process
  iface:eth1  netns:blue         names, with * and ?; also cgroup:/user.slice*
  id:5c11a0e2                    prefix of the id or the token
  state:established              or close, syn_sent, ...
  role:client  class:long        or server; query, short
  rate>1M  bytes>=10G            bit/s and bytes, with k, M, G, T
  rtt>20ms                       smoothed RTT of any open subflow, in us, ms or s
  subflows<2                     open subflows
  shared                         at least two subflows share a bottleneck
  mptcp tcp fallback open closed stale";

/// A parsed filter. `Display` prints it as text that parses to the same filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    negated: bool,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Peer(Network),
    Local(Network),
    Port(u16),
    Process(Pattern),
    Interface(Pattern),
    Netns(Pattern),
    Cgroup(Pattern),
    Id(String),
    State(TcpState),
    Role(Role),
    Class(FlowClass),
    Compare(Subject, Comparison, Quantity),
    Word(Word),
}

/// The value that a comparison reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Rate,
    Rtt,
    Bytes,
    Subflows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    AtLeast,
    More,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Mptcp,
    Tcp,
    Fallback,
    Shared,
    Open,
    Closed,
    Stale,
}

impl Filter {
    /// Parses a filter. An empty one matches everything.
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

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(network) => write!(f, "peer:{network}"),
            Self::Local(network) => write!(f, "local:{network}"),
            Self::Port(port) => write!(f, "port:{port}"),
            Self::Process(name) => write!(f, "proc:{name}"),
            Self::Interface(name) => write!(f, "iface:{name}"),
            Self::Netns(name) => write!(f, "netns:{name}"),
            Self::Cgroup(name) => write!(f, "cgroup:{name}"),
            Self::Id(prefix) => write!(f, "id:{prefix}"),
            Self::State(state) => write!(f, "state:{}", state.as_str()),
            Self::Role(role) => write!(f, "role:{}", role.as_str()),
            Self::Class(class) => write!(f, "class:{}", class.as_str()),
            Self::Compare(subject, comparison, quantity) => {
                write!(f, "{}{}{quantity}", subject.as_str(), comparison.sign())
            }
            Self::Word(word) => f.write_str(word.text()),
        }
    }
}

impl Test {
    fn holds(&self, c: &Connection) -> bool {
        match self {
            Self::Peer(network) => addresses(c, |local_remote| local_remote.1).any(|ip| network.contains(ip)),
            Self::Local(network) => {
                addresses(c, |local_remote| local_remote.0).any(|ip| network.contains(ip))
            }
            Self::Port(port) => has_port(c, *port),
            Self::Process(name) => {
                c.process.is_some_and(|p| name.matches(&p.comm.text()) || name.text() == p.pid.to_string())
            }
            Self::Interface(name) => {
                c.subflows.iter().filter_map(|s| s.interface).any(|one| name.matches(&one.text()))
            }
            Self::Netns(name) => name.matches(&c.netns),
            Self::Cgroup(name) => c.cgroup.as_deref().is_some_and(|path| name.matches(path)),
            Self::Id(prefix) => c.id.to_string().starts_with(prefix) || c.id.short().starts_with(prefix),
            Self::State(state) => c.state == *state,
            Self::Role(role) => c.role == Some(*role),
            Self::Class(class) => c.flow_class == *class,
            Self::Compare(subject, comparison, quantity) => {
                subject.values(c).into_iter().any(|value| comparison.holds(value, quantity.base))
            }
            Self::Word(word) => word.holds(c),
        }
    }
}

/// One end's addresses of a connection and of all its subflows.
fn addresses(c: &Connection, end: fn((IpAddr, IpAddr)) -> IpAddr) -> impl Iterator<Item = IpAddr> {
    let own = c.local.zip(c.remote).into_iter();
    let all = own.chain(c.subflows.iter().map(|s| (s.local, s.remote)));
    all.map(move |(local, remote)| end((local.ip(), remote.ip())))
}

fn has_port(c: &Connection, port: u16) -> bool {
    let own = [c.local, c.remote].into_iter().flatten();
    own.chain(c.subflows.iter().flat_map(|s| [s.local, s.remote])).any(|address| address.port() == port)
}

impl Subject {
    const ALL: [Self; 4] = [Self::Rate, Self::Rtt, Self::Bytes, Self::Subflows];

    fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Rtt => "rtt",
            Self::Bytes => "bytes",
            Self::Subflows => "subflows",
        }
    }

    /// In bit/s, microseconds, bytes or plain numbers. One value per open subflow for the RTT; none if unknown.
    fn values(self, c: &Connection) -> Vec<u64> {
        match self {
            Self::Rate => vec![c.send.0.saturating_add(c.receive.0)],
            Self::Rtt => {
                let open = c.subflows.iter().filter(|s| s.closed.is_none());
                open.filter_map(|s| s.srtt).map(|srtt| srtt.0).collect()
            }
            Self::Bytes => c
                .bytes_sent
                .zip(c.bytes_received)
                .map(|(sent, received)| (sent + received).0)
                .into_iter()
                .collect(),
            Self::Subflows => vec![c.subflows.iter().filter(|s| s.closed.is_none()).count() as u64],
        }
    }
}

impl Comparison {
    /// Longer signs first: `>=` begins with `>`.
    const ALL: [Self; 4] = [Self::AtMost, Self::AtLeast, Self::Less, Self::More];

    fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::AtLeast => ">=",
            Self::More => ">",
        }
    }

    fn holds(self, value: u64, limit: u64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::AtLeast => value >= limit,
            Self::More => value > limit,
        }
    }
}

impl Word {
    const ALL: [Self; 7] =
        [Self::Mptcp, Self::Tcp, Self::Fallback, Self::Shared, Self::Open, Self::Closed, Self::Stale];

    fn text(self) -> &'static str {
        match self {
            Self::Mptcp => "mptcp",
            Self::Tcp => "tcp",
            Self::Fallback => "fallback",
            Self::Shared => "shared",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Stale => "stale",
        }
    }

    fn holds(self, c: &Connection) -> bool {
        match self {
            Self::Mptcp => c.protocol == Protocol::Mptcp,
            Self::Tcp => c.protocol == Protocol::Tcp,
            Self::Fallback => c.fallback.is_some(),
            Self::Shared => c.bottlenecks.iter().flat_map(|found| &found.groups).any(|group| group.len() > 1),
            Self::Open => c.is_open(),
            Self::Closed => !c.is_open(),
            Self::Stale => c.subflows.iter().any(|s| s.stale && s.closed.is_none()),
        }
    }
}
