// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's SNMP (MIB) counters of a namespace: `MPTcpExt`, `TcpExt`, `Tcp` and so on.

use crate::error::{Error, Result};
use crate::netns::Namespace;
use std::collections::BTreeMap;
use std::fs;

/// Counters by name, for example `MPTcpExtMPJoinSynAckRx`. They count from the creation of the namespace.
pub type Counters = BTreeMap<String, u64>;

/// Reads `/proc/net/netstat` and `/proc/net/snmp` of a namespace. Counters that the kernel lacks are absent.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn read(namespace: &Namespace) -> Result<Counters> {
    const PATHS: [&str; 2] = ["/proc/thread-self/net/netstat", "/proc/thread-self/net/snmp"];
    let read = |path| fs::read_to_string(path).map_err(Error::os("read", path));
    let texts: Result<Vec<String>> = namespace.enter(|| PATHS.into_iter().map(read).collect())?;
    Ok(texts?.iter().flat_map(|text| parse(text)).collect())
}

/// The increases of counters between two readings. Unchanged counters are absent.
#[must_use]
pub fn difference(before: &Counters, after: &Counters) -> Counters {
    after
        .iter()
        .map(|(name, now)| {
            let was = before.get(name).copied().unwrap_or(0);
            (name.clone(), now.saturating_sub(was))
        })
        .filter(|(_, change)| *change > 0)
        .collect()
}

/// Parses pairs of lines: `Group: name name ...`, then `Group: number number ...`.
fn parse(text: &str) -> Counters {
    let lines: Vec<&str> = text.lines().collect();
    let (pairs, _) = lines.as_chunks::<2>();
    pairs
        .iter()
        .filter_map(|[names, values]| Some((names.split_once(':')?, values.split_once(':')?)))
        .flat_map(|((group, names), (_, values))| {
            names
                .split_whitespace()
                .zip(values.split_whitespace())
                .filter_map(move |(name, value)| Some((format!("{group}{name}"), value.parse().ok()?)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_paired_by_group() {
        let counters = parse("TcpExt: A B\nTcpExt: 1 2\nMPTcpExt: A\nMPTcpExt: 7\n");
        assert_eq!(counters["TcpExtB"], 2);
        assert_eq!(counters["MPTcpExtA"], 7);
        let later = parse("MPTcpExt: A\nMPTcpExt: 9\n");
        assert_eq!(difference(&counters, &later).get("MPTcpExtA"), Some(&2));
    }
}
