// SPDX-License-Identifier: MIT OR Apache-2.0
//! What methods said of a trace: the lines of `mpwatch replay FILE --verdicts`, read.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use super::truth::Time;

/// A verdict on two subflows, or that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// One bottleneck.
    Shared,
    /// Bottlenecks of their own.
    Disjoint,
    /// No bottleneck.
    NoBottleneck,
    /// Not decided.
    #[default]
    Unknown,
}

/// A subflow of a trace.
#[derive(Clone, Debug, Deserialize)]
pub struct Subflow {
    id: String,
    /// Its connection.
    pub connection: u64,
    local: SocketAddr,
    #[serde(default)]
    remote: Option<SocketAddr>,
    /// When it was there. `None`: never.
    #[serde(rename = "established_ns")]
    pub established: Option<Time>,
}

impl Subflow {
    /// The sender's address.
    pub fn address(&self) -> IpAddr {
        self.local.ip()
    }
}

/// What was said of two subflows.
#[derive(Clone, Debug, Deserialize)]
pub struct Pair {
    a: String,
    b: String,
    /// The verdict.
    pub verdict: Said,
    /// What the evidence says for and against sharing, of the method that shows it.
    pub terms: Option<BTreeMap<String, f64>>,
}

/// What one method thought at one time.
#[derive(Clone, Debug, Deserialize)]
pub struct Look {
    method: String,
    #[serde(default)]
    connection: Option<u64>,
    /// Up to when it had the samples.
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// Each two subflows.
    pub pairs: Vec<Pair>,
    /// Ids of subflows that share a cap, but no queue.
    #[serde(default)]
    pub caps: Vec<Vec<String>>,
    /// Ids of subflows that could be closed.
    pub extra: Vec<String>,
}

impl Look {
    /// What was said of two subflows, in either order.
    pub fn of(&self, one: &str, other: &str) -> Option<&Pair> {
        self.pairs
            .iter()
            .find(|pair| (pair.a == one && pair.b == other) || (pair.a == other && pair.b == one))
    }
}

/// Stands for the connection where several were compared: the lab has one address that all connect to.
const ACROSS: u64 = 0;

#[derive(Deserialize)]
struct Subflows {
    subflows: Vec<Subflow>,
}

/// All that was said of a trace.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Subflows by their ids.
    pub subflows: BTreeMap<String, Subflow>,
    /// Whether subflows of different connections to one address were compared (`--across`), instead of those of one connection.
    pub across: bool,
    /// Looks in order of time, by method and connection.
    pub(super) looks: BTreeMap<(String, u64), Vec<Look>>,
}

impl Verdicts {
    /// Reads the lines.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        let mut lines = text.lines();
        let first: Subflows = serde_json::from_str(lines.next().unwrap_or_default())?;
        let subflows = first.subflows.into_iter().map(|subflow| (subflow.id.clone(), subflow)).collect();
        let mut looks: BTreeMap<(String, u64), Vec<Look>> = BTreeMap::new();
        let mut across = false;
        for line in lines {
            let look: Look = serde_json::from_str(line)?;
            across |= look.connection.is_none();
            looks.entry((look.method.clone(), look.connection.unwrap_or(ACROSS))).or_default().push(look);
        }
        Ok(Self { subflows, across, looks })
    }

    /// Names of the methods.
    pub fn methods(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.looks.keys().map(|(method, _)| method.as_str()).collect();
        names.dedup();
        names
    }

    /// What one method thought of one connection, in order of time; of all that were compared with it, if connections were.
    pub fn looks(&self, method: &str, connection: u64) -> &[Look] {
        let connection = if self.across { ACROSS } else { connection };
        self.looks.get(&(method.to_owned(), connection)).map_or(&[], Vec::as_slice)
    }

    /// Each two subflows that were both there, and were compared: of one connection, or of different ones to one address. Their ids.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        let there: Vec<_> =
            self.subflows.iter().filter(|(_, subflow)| subflow.established.is_some()).collect();
        let were_compared = |one: &Subflow, other: &Subflow| {
            let address = |subflow: &Subflow| subflow.remote.map(|remote| remote.ip());
            if one.connection == other.connection {
                !self.across
            } else {
                self.across && address(one) == address(other)
            }
        };
        let mut pairs = Vec::new();
        for (place, (one, first)) in there.iter().enumerate() {
            let others = there[place + 1..].iter().filter(|(_, other)| were_compared(first, other));
            pairs.extend(others.map(|(other, _)| (one.as_str(), other.as_str())));
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_subflows_of_one_connection_are_compared_or_of_different_ones() {
        let subflow = |n: u32, connection: u32| {
            format!(
                r#"{{"id":"{n}.0","connection":{connection},"local":"10.{n}.1.2:1","remote":"10.9.1.2:5","established_ns":5}}"#
            )
        };
        let subflows = [subflow(1, 7), subflow(2, 7), subflow(3, 8)].join(",");
        let look = r#""method":"m","at_ns":9,"extra":[],"pairs":[{"a":"1.0","b":"3.0","verdict":"shared"}]"#;
        let parsed = |whose: &str| {
            Verdicts::parse(&format!("{{\"subflows\":[{subflows}]}}\n{{{whose},{look}}}")).unwrap()
        };
        let within = parsed(r#""connection":7"#);
        assert_eq!((within.pairs(), within.looks("m", 7).len()), (vec![("1.0", "2.0")], 1));
        let across = parsed(r#""destination":"10.9.1.2""#);
        assert_eq!(across.pairs(), [("1.0", "3.0"), ("2.0", "3.0")]);
        assert_eq!(across.looks("m", 8)[0].of("3.0", "1.0").unwrap().verdict, Said::Shared);
    }
}
