// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an interface and its queue have counted, as the kernel tells it: a source of truth
//! that is independent of TCP's own numbers.

use crate::command::{self, Program};
use crate::error::{Error, Result};
use crate::netns::Namespace;
use serde::Deserialize;
use std::fs;

/// Packets and bytes of one interface since it was made, from `/proc/net/dev`. Bytes include the Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Bytes that arrived.
    pub rx_bytes: u64,
    /// Packets that arrived.
    pub rx_packets: u64,
    /// Bytes that left.
    pub tx_bytes: u64,
    /// Packets that left.
    pub tx_packets: u64,
}

impl InterfaceCounters {
    /// Reads the counters of one interface.
    ///
    /// # Errors
    /// When there is no such interface in the namespace.
    pub fn read(namespace: &Namespace, interface: &str) -> Result<Self> {
        // thread-self: /proc/net is the view of the main thread, which is in another namespace.
        const PATH: &str = "/proc/thread-self/net/dev";
        let text = namespace.enter(|| fs::read_to_string(PATH).map_err(Error::os("read", PATH)))??;
        parse_interface(&text, interface).ok_or_else(|| Error::Missing {
            what: format!("interface `{interface}` in {}", namespace.name()),
            advice: "use a name that `ip link` shows in that namespace",
        })
    }
}

fn parse_interface(text: &str, interface: &str) -> Option<InterfaceCounters> {
    let numbers: Vec<u64> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == interface)?
        .1
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let at = |index: usize| numbers.get(index).copied();
    Some(InterfaceCounters { rx_bytes: at(0)?, rx_packets: at(1)?, tx_bytes: at(8)?, tx_packets: at(9)? })
}

/// What the queue of an interface holds and has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QueueCounters {
    /// Bytes that wait now.
    pub backlog: u64,
    /// Packets that wait now.
    pub qlen: u64,
    /// Packets dropped since the queue was made, because it was full.
    pub drops: u64,
    /// Bytes that passed.
    pub bytes: u64,
    /// Packets that passed.
    pub packets: u64,
}

impl QueueCounters {
    /// Reads the queue of one interface's rate limit (`tc -s qdisc`); without one all is 0.
    ///
    /// # Errors
    /// When there is no such interface, or `tc` cannot write JSON.
    pub fn read(namespace: &Namespace, interface: &str) -> Result<Self> {
        Ok(Queues::read(namespace, interface)?.limit.unwrap_or_default())
    }
}

/// The queues of one interface at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queues {
    /// Of `netem`, which is the root where it is; it counts what its child drops as well.
    pub(crate) netem: Option<QueueCounters>,
    /// Of the rate limit: the root, or `netem`'s child.
    pub(crate) limit: Option<QueueCounters>,
}

/// One element of what `tc` tells.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    kind: String,
    handle: String,
    /// Absent of the root.
    parent: Option<String>,
    #[serde(flatten)]
    counters: QueueCounters,
}

impl Queues {
    /// Reads them, `netem` and rate limit at once.
    ///
    /// # Errors
    /// When there is no such interface, or `tc` cannot write JSON.
    pub(crate) fn read(namespace: &Namespace, interface: &str) -> Result<Self> {
        let arguments = format!("-s -j qdisc show dev {interface}");
        let text = namespace.enter(|| command::output(Program::Tc, &arguments))??;
        let told: Vec<Told> = serde_json::from_str(&text).map_err(|error| Error::Command {
            program: "tc".to_owned(),
            input: arguments,
            stderr: format!("unexpected JSON: {error}"),
        })?;
        Ok(Self::sort(&told))
    }

    fn sort(told: &[Told]) -> Self {
        let Some(root) = told.iter().find(|queue| queue.parent.is_none()) else {
            return Self::default();
        };
        if root.kind != "netem" {
            return Self { netem: None, limit: Some(root.counters) };
        }
        let under =
            |queue: &&Told| queue.parent.as_ref().is_some_and(|parent| parent.starts_with(&root.handle));
        Self { netem: Some(root.counters), limit: told.iter().find(under).map(|queue| queue.counters) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_whole_name() {
        let text = "head\n p10: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n p1: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n";
        let counters = parse_interface(text, "p1").unwrap();
        assert_eq!((counters.rx_bytes, counters.tx_packets), (1, 4));
        assert_eq!(parse_interface(text, "p"), None);
    }

    #[test]
    fn the_limit_is_the_root_or_the_child_of_netem() {
        let tbf =
            r#"{"kind":"tbf","handle":"1:","parent":"100:1","options":{},"bytes":9,"packets":1,"drops":3}"#;
        let netem =
            r#"{"kind":"netem","handle":"100:","root":true,"options":{},"bytes":9,"packets":1,"drops":5}"#;
        let sort = |text: &str| Queues::sort(&serde_json::from_str::<Vec<Told>>(text).unwrap());
        let both = sort(&format!("[{netem},{tbf}]"));
        assert_eq!((both.netem.unwrap().drops, both.limit.unwrap().drops), (5, 3));
        let delay_only = sort(&format!("[{netem}]"));
        assert_eq!((delay_only.netem.unwrap().drops, delay_only.limit), (5, None));
        let limit_only = sort(&format!("[{}]", tbf.replace(r#""parent":"100:1""#, r#""root":true"#)));
        assert_eq!((limit_only.netem, limit_only.limit.unwrap().drops), (None, 3));
    }
}
