// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table III of `[MPTCP-D]` on the real kernel, with what the paper leaves out. Success: of the subflows beyond one a path, how many
//! were closed. False: of the paths, how many lost their last subflow. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::{App, Cell, Layout};
use super::score::Share;
use super::truth::{Labels, SECOND, Time};
use super::verdict::Verdicts;
use crate::table::markdown;

/// Counts over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Closed {
    connections: u32,
    right: u32,
    extra: u32,
    lost: u32,
    paths: u32,
}

/// Columns: subflows on the first path, and the connection's in all.
const COLUMNS: [(&str, usize); 4] =
    [("2 a path", 4), ("4 a path", 8), ("8 and 1", 9), ("1 a path (control)", 2)];

/// Adds up what each method would have closed. Long transfers are asked this long after their beginning, short ones at their end.
const ASKED: Time = 18 * SECOND;

/// What the methods would have closed, by length of transfer, method and subflows.
#[derive(Clone, Debug, Default)]
pub struct Table(BTreeMap<(bool, String, usize), Closed>);

impl Table {
    /// Takes in a cell; others than those of this table are left out.
    pub fn add(&mut self, labels: &Labels, verdicts: &Verdicts) {
        if labels.cell.layout != Layout::TwoRates {
            return;
        }
        let connections: BTreeSet<u64> = verdicts.subflows.values().map(|one| one.connection).collect();
        for method in verdicts.methods() {
            for &connection in &connections {
                let closed = closed(labels, verdicts, method, connection);
                let is_short = labels.cell.app == App::Short;
                let sum = self.0.entry((is_short, method.to_owned(), labels.cell.subflows)).or_default();
                sum.connections += closed.connections;
                sum.right += closed.right;
                sum.extra += closed.extra;
                sum.lost += closed.lost;
                sum.paths += closed.paths;
            }
        }
    }

    /// As Markdown: success and false closes, in percent.
    pub fn markdown(&self) -> String {
        let mut rows = Vec::new();
        let kinds: BTreeSet<(bool, &str)> =
            self.0.keys().map(|(short, method, _)| (*short, method.as_str())).collect();
        for (is_short, method) in kinds {
            let length = if is_short { "0.5 MB" } else { "long" };
            let mut row = vec![format!("`{method}`, {length}")];
            for (_, subflows) in COLUMNS {
                let of = self.0.get(&(is_short, method.to_owned(), subflows)).copied().unwrap_or_default();
                row.push(format!("{} / {}", part(of.right, of.extra), part(of.lost, of.paths)));
            }
            rows.push(row);
        }
        let header: Vec<String> =
            COLUMNS.iter().map(|(title, _)| format!("{title}: found / false")).collect();
        let header: Vec<&str> = ["method"].into_iter().chain(header.iter().map(String::as_str)).collect();
        let text = markdown(&header, &rows);
        let counts = COLUMNS.iter().map(|(title, subflows)| {
            let of = |short| self.0.iter().find(|(key, _)| key.0 == short && key.2 == *subflows);
            let count = |short| of(short).map_or(0, |(_, closed)| closed.connections);
            format!("{title}: {} long, {} of 0.5 MB", count(false), count(true))
        });
        text + "\nConnections: " + &counts.collect::<Vec<_>>().join("; ") + ".\n"
    }
}

fn part(part: u32, all: u32) -> String {
    Share::new(part, all).map_or("-".to_owned(), |share| format!("{:.3}", share.value))
}

/// What became of one connection.
fn closed(labels: &Labels, verdicts: &Verdicts, method: &str, connection: u64) -> Closed {
    let cell: &Cell = &labels.cell;
    // Subflows of each path, and those of them that were closed.
    let mut paths = [(0, 0); 2];
    let begun = verdicts.subflows.values().filter(|one| one.connection == connection);
    let from = begun.filter_map(|one| one.established).min().unwrap_or(0);
    let looks = verdicts.looks(method, connection);
    let last = looks.iter().rev().find(|look| look.at <= from + ASKED);
    for (id, subflow) in &verdicts.subflows {
        if subflow.connection != connection || subflow.established.is_none() {
            continue;
        }
        let Some(place) = labels.addresses.iter().position(|address| *address == subflow.address()) else {
            continue;
        };
        let path = &mut paths[cell.queue_of(place, false)];
        path.0 += 1;
        path.1 += u32::from(last.is_some_and(|look| look.extra.contains(id)));
    }
    let mut sum = Closed { connections: 1, ..Closed::default() };
    for (subflows, closed) in paths.into_iter().filter(|(subflows, _)| *subflows > 0) {
        sum.extra += subflows - 1;
        sum.right += closed.min(subflows - 1);
        sum.paths += 1;
        sum.lost += u32::from(closed == subflows);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::cell::Set;
    use super::*;

    fn verdicts(extra: &str) -> Verdicts {
        let subflow =
            |n: u32| format!(r#"{{"id":"{n}.0","connection":9,"local":"10.{n}.1.2:1","established_ns":5}}"#);
        let subflows: Vec<String> = (1..=4).map(subflow).collect();
        let text = format!(
            "{{\"subflows\":[{}]}}\n{{\"method\":\"m\",\"connection\":9,\"at_ns\":7,\"pairs\":[],\"extra\":{extra}}}",
            subflows.join(",")
        );
        Verdicts::parse(&text).unwrap()
    }

    #[test]
    fn closing_all_subflows_of_a_path_is_a_false_close() {
        let cell = Cell { subflows: 4, ..Cell::new(Set::Evaluation, Layout::TwoRates, 100) };
        let labels = Labels {
            cell,
            addresses: (1..=4).map(|n| format!("10.{n}.1.2").parse().unwrap()).collect(),
            switched: None,
            queues: Vec::new(),
            late: 0.0,
            busy: 0.0,
            overflowed: 0,
        };
        let table = |extra| {
            let mut table = Table::default();
            table.add(&labels, &verdicts(extra));
            table.markdown()
        };
        assert!(table(r#"["2.0","4.0"]"#).contains("| `m`, long | 1.000 / 0.000 |"));
        assert!(table(r#"["2.0","3.0","4.0"]"#).contains("| `m`, long | 1.000 / 0.500 |"));
        assert!(table(r#"["2.0"]"#).contains("| `m`, long | 0.500 / 0.000 |"));
    }
}
