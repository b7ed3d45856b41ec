// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table III of `[MPTCP-D]` on the real kernel. Success: share of subflows beyond one per path that were closed. False: share of paths that
//! lost their last subflow; the paper does not report this share. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use mpwatch_model::id::SocketCookie;

use crate::bottleneck::score::Proportion;
use crate::bottleneck::truth::{Labels, SECOND, Time};
use crate::bottleneck::verdict::Verdicts;
use crate::table::markdown;
use mpwatch_lab::bottleneck::cell::{App, Cell, Layout};

/// The title of each column, and the number of subflows of its connections.
const COLUMNS: [(&str, usize); 4] =
    [("2 per path", 4), ("4 per path", 8), ("8 and 1", 9), ("1 per path (control)", 2)];
/// Time after the start at which a long transfer is evaluated. Short transfers are evaluated at their end.
const EVALUATED_AFTER: Time = 18 * SECOND;

/// Counts over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Closed {
    connections: u32,
    /// Number of subflows beyond one per path.
    extra: u32,
    /// Number of `extra` subflows that the method closed.
    found: u32,
    paths: u32,
    /// Number of paths whose subflows were all closed.
    lost_paths: u32,
}

impl AddAssign for Closed {
    fn add_assign(&mut self, other: Self) {
        self.connections += other.connections;
        self.extra += other.extra;
        self.found += other.found;
        self.paths += other.paths;
        self.lost_paths += other.lost_paths;
    }
}

/// Subflows that the methods would have closed, by length of transfer (`true`: short), method and number of subflows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(BTreeMap<(bool, String, usize), Closed>);

impl Table {
    /// Adds the connections of a cell, if the cell belongs to this table.
    pub(crate) fn add(&mut self, labels: &Labels, verdicts: &Verdicts) {
        if labels.cell.layout != Layout::TwoRates {
            return;
        }
        let connections: BTreeSet<_> = verdicts.subflows.values().map(|subflow| subflow.connection).collect();
        for method in verdicts.methods() {
            for &connection in &connections {
                let is_short = labels.cell.app == App::Short;
                let sum = self.0.entry((is_short, method.to_owned(), labels.cell.subflows)).or_default();
                *sum += closed(labels, verdicts, method, connection);
            }
        }
    }

    /// The table as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let kinds: BTreeSet<(bool, &str)> =
            self.0.keys().map(|(short, method, _)| (*short, method.as_str())).collect();
        let rows: Vec<_> = kinds.into_iter().map(|(is_short, method)| self.row(is_short, method)).collect();
        let header: Vec<String> =
            COLUMNS.iter().map(|(title, _)| format!("{title}: success / false")).collect();
        let header: Vec<&str> = ["method"].into_iter().chain(header.iter().map(String::as_str)).collect();
        let counts = COLUMNS.iter().map(|(title, subflows)| {
            let of = |short| self.0.iter().find(|(key, _)| key.0 == short && key.2 == *subflows);
            let count = |short| of(short).map_or(0, |(_, closed)| closed.connections);
            format!("{title}: {} long, {} of 0.5 MB", count(false), count(true))
        });
        let counts = counts.collect::<Vec<_>>().join("; ");
        markdown(&header, &rows) + "\nConnections: " + &counts + ".\n"
    }

    fn row(&self, is_short: bool, method: &str) -> Vec<String> {
        let length = if is_short { "0.5 MB" } else { "long" };
        let mut row = vec![format!("`{method}`, {length}")];
        for (_, subflows) in COLUMNS {
            let sum = self.0.get(&(is_short, method.to_owned(), subflows)).copied().unwrap_or_default();
            let (success, false_closes) = (decimal(sum.found, sum.extra), decimal(sum.lost_paths, sum.paths));
            row.push(format!("{success} / {false_closes}"));
        }
        row
    }
}

fn decimal(part: u32, all: u32) -> String {
    Proportion::new(part, all).map_or("-".to_owned(), |proportion| format!("{:.3}", proportion.value))
}

/// Counts the subflows of a connection that a method would have closed.
fn closed(labels: &Labels, verdicts: &Verdicts, method: &str, connection: SocketCookie) -> Closed {
    let cell: &Cell = &labels.cell;
    let subflows = || verdicts.subflows.iter().filter(|(_, subflow)| subflow.connection == connection);
    let start = subflows().filter_map(|(_, subflow)| subflow.established).min().unwrap_or(0);
    let evaluations = verdicts.evaluations(method, connection).iter();
    let last = evaluations.rev().find(|evaluation| evaluation.at <= start + EVALUATED_AFTER);
    // For each path, the number of its subflows, and the number of closed subflows among them.
    let mut paths = [(0, 0); 2];
    for (id, subflow) in subflows().filter(|(_, subflow)| subflow.established.is_some()) {
        let Some(index) = labels.addresses.iter().position(|address| *address == subflow.address) else {
            continue;
        };
        let path = &mut paths[cell.queue_of(index, false)];
        path.0 += 1;
        path.1 += u32::from(last.is_some_and(|evaluation| evaluation.extra.contains(id)));
    }
    let mut sum = Closed { connections: 1, ..Closed::default() };
    for (subflows, closed) in paths.into_iter().filter(|(subflows, _)| *subflows > 0) {
        sum.extra += subflows - 1;
        sum.found += closed.min(subflows - 1);
        sum.paths += 1;
        sum.lost_paths += u32::from(closed == subflows);
    }
    sum
}

#[cfg(test)]
mod tests {
    use mpwatch_model::id::SubflowId;

    use super::*;
    use crate::bottleneck::verdict::{Evaluation, Subflow};
    use mpwatch_lab::bottleneck::cell::Set;

    const CONNECTION: SocketCookie = SocketCookie(9);

    fn id(number: u64) -> SubflowId {
        SubflowId { cookie: SocketCookie(number), generation: 0 }
    }

    fn verdicts(extra: &[u64]) -> Verdicts {
        let subflow = |number: u64| {
            let address = format!("10.{number}.1.2").parse().unwrap();
            (id(number), Subflow { connection: CONNECTION, address, established: Some(5) })
        };
        let mut verdicts = Verdicts::new((1..=4).map(subflow).collect());
        let extra = extra.iter().map(|number| id(*number)).collect();
        let evaluation = Evaluation { at: 7, pairs: Vec::new(), extra };
        verdicts.push("m", CONNECTION, evaluation);
        verdicts
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
        let table = |extra: &[u64]| {
            let mut table = Table::default();
            table.add(&labels, &verdicts(extra));
            table.markdown()
        };
        assert!(table(&[2, 4]).contains("| `m`, long | 1.000 / 0.000 |"));
        assert!(table(&[2, 3, 4]).contains("| `m`, long | 1.000 / 0.500 |"));
        assert!(table(&[2]).contains("| `m`, long | 0.500 / 0.000 |"));
    }
}
