// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's counters of an interface and its queues, which are independent of TCP's counters.

use crate::command::{self, Program};
use crate::error::{Error, Result};
use crate::netns::Namespace;
use serde::Deserialize;
use std::fs;

/// Packets and bytes of one interface since its creation, from `/proc/net/dev`. Bytes include Ethernet headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
}

impl InterfaceCounters {
    /// Reads the counters of one interface.
    ///
    /// # Errors
    /// If the namespace has no such interface.
    pub fn read(namespace: &Namespace, interface: &str) -> Result<Self> {
        // `/proc/net` would show the namespace of the main thread.
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

/// Current length of a queue, and its counters since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QueueCounters {
    /// Bytes in the queue.
    pub backlog: u64,
    /// Packets in the queue.
    pub qlen: u64,
    /// Packets dropped because the queue was full.
    pub drops: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
}

impl QueueCounters {
    /// Reads the queue of an interface's rate limit (`tc -s qdisc`). Without a rate limit all values are 0.
    ///
    /// # Errors
    /// If there is no such interface, or `tc` does not support JSON.
    pub fn read(namespace: &Namespace, interface: &str) -> Result<Self> {
        Ok(PortQueues::read(namespace, interface)?.rate_limit.unwrap_or_default())
    }
}

/// The queues of an interface, read at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortQueues {
    /// The queue of `netem`. Its drops include the drops of its child. `None`: the root is not `netem`.
    pub(crate) netem: Option<QueueCounters>,
    /// The queue of the rate limit, which is the root or the child of `netem`. `None`: no rate limit.
    pub(crate) rate_limit: Option<QueueCounters>,
}

/// One queueing discipline in the output of `tc`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct QdiscJson {
    kind: String,
    handle: String,
    /// `None`: the discipline is the root.
    parent: Option<String>,
    #[serde(flatten)]
    counters: QueueCounters,
}

impl PortQueues {
    /// Reads the queues of netem and of the rate limit with one command.
    ///
    /// # Errors
    /// If there is no such interface, or `tc` does not support JSON.
    pub(crate) fn read(namespace: &Namespace, interface: &str) -> Result<Self> {
        let arguments = format!("-s -j qdisc show dev {interface}");
        let text = namespace.enter(|| command::output(Program::Tc, &arguments))??;
        let qdiscs: Vec<QdiscJson> = serde_json::from_str(&text).map_err(|error| Error::Command {
            program: "tc".to_owned(),
            input: arguments,
            stderr: format!("unexpected JSON: {error}"),
        })?;
        Ok(Self::from_qdiscs(&qdiscs))
    }

    fn from_qdiscs(qdiscs: &[QdiscJson]) -> Self {
        let Some(root) = qdiscs.iter().find(|queue| queue.parent.is_none()) else {
            return Self::default();
        };
        if root.kind != "netem" {
            return Self { netem: None, rate_limit: Some(root.counters) };
        }
        let is_child =
            |queue: &&QdiscJson| queue.parent.as_ref().is_some_and(|parent| parent.starts_with(&root.handle));
        let child = qdiscs.iter().find(is_child);
        Self { netem: Some(root.counters), rate_limit: child.map(|queue| queue.counters) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_an_interface_name_does_not_match() {
        let text = "head\n p10: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n p1: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n";
        let counters = parse_interface(text, "p1").unwrap();
        assert_eq!((counters.rx_bytes, counters.tx_packets), (1, 4));
        assert_eq!(parse_interface(text, "p"), None);
    }

    #[test]
    fn the_rate_limit_is_the_root_or_the_child_of_netem() {
        let tbf =
            r#"{"kind":"tbf","handle":"1:","parent":"100:1","options":{},"bytes":9,"packets":1,"drops":3}"#;
        let netem =
            r#"{"kind":"netem","handle":"100:","root":true,"options":{},"bytes":9,"packets":1,"drops":5}"#;
        let parse =
            |text: &str| PortQueues::from_qdiscs(&serde_json::from_str::<Vec<QdiscJson>>(text).unwrap());
        let both = parse(&format!("[{netem},{tbf}]"));
        assert_eq!((both.netem.unwrap().drops, both.rate_limit.unwrap().drops), (5, 3));
        let delay_only = parse(&format!("[{netem}]"));
        assert_eq!((delay_only.netem.unwrap().drops, delay_only.rate_limit), (5, None));
        let limit_only = parse(&format!("[{}]", tbf.replace(r#""parent":"100:1""#, r#""root":true"#)));
        assert_eq!((limit_only.netem, limit_only.rate_limit.unwrap().drops), (None, 3));
    }
}
