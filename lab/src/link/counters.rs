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
    /// Reads the root queue of one interface (`tc -s qdisc`).
    ///
    /// # Errors
    /// When there is no such interface, or `tc` cannot write JSON.
    pub fn read(namespace: &Namespace, interface: &str) -> Result<Self> {
        let arguments = format!("-s -j qdisc show dev {interface} root");
        let text = namespace.enter(|| command::output(Program::Tc, &arguments))??;
        let queues: Vec<Self> = serde_json::from_str(&text).map_err(|error| Error::Command {
            program: "tc".to_owned(),
            input: arguments,
            stderr: format!("unexpected JSON: {error}"),
        })?;
        Ok(queues.first().copied().unwrap_or_default())
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
}
