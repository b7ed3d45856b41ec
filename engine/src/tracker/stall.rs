// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stalls of a connection: intervals in which no subflow made progress. Each subflow records its own stalls; the connection stalls while
//! the stalls of all subflows overlap. After the failure of a path this is the failover gap.

use mpwatch_model::kernel::event::{MIN_STALL, Stall};
use mpwatch_model::unit::Nanos;

/// The stalls of one subflow.
pub(super) struct SubflowStalls<'a> {
    /// Stalls that have ended, oldest first.
    pub(super) stalls: &'a [Stall],
    /// Time of the last progress, when a stall may have begun. `None`: the subflow never made progress.
    pub(super) progress: Option<Nanos>,
    /// Whether sent data was unacknowledged at the last progress.
    pub(super) unacked: bool,
    /// Time since which the subflow has data in flight. `None`: no data is in flight or, with `is_busy_unknown`, the time is unknown.
    pub(super) busy_since: Option<Nanos>,
    pub(super) is_busy_unknown: bool,
}

impl SubflowStalls<'_> {
    /// The latest stall of the subflow that overlaps with `[from, to]`. `None`: the subflow made progress.
    fn stall_in(&self, from: Nanos, to: Nanos) -> Option<Stall> {
        let Some(progress) = self.progress else { return Some(Stall { from: Nanos(0), to, unacked: None }) };
        if progress + MIN_STALL <= to {
            let busy_since = self.busy_since.filter(|since| *since < to);
            let unacked = (busy_since.is_some() || self.is_busy_unknown).then_some(self.unacked);
            let from = progress.max(busy_since.unwrap_or_default());
            return Some(Stall { from, to, unacked });
        }
        self.stalls.iter().rev().find(|stall| stall.from < to && from < stall.to).copied()
    }
}

/// The overlap of two stalls. `unacked` is the value of the stall that begins later.
fn overlap(a: Stall, b: Stall) -> Stall {
    let later = if b.from > a.from { b } else { a };
    Stall { to: a.to.min(b.to), ..later }
}

/// Stalls of the connection with unacknowledged data as (from, to), oldest first.
pub(super) fn of_connection(subflows: &[SubflowStalls<'_>]) -> Vec<(Nanos, Nanos)> {
    let mut found = Vec::new();
    for (index, subflow) in subflows.iter().enumerate() {
        for &stall in subflow.stalls {
            let mut others = subflows.iter().enumerate().filter(|&(other, _)| other != index);
            let common = others.try_fold(stall, |common, (_, other)| {
                Some(overlap(common, other.stall_in(common.from, common.to)?))
            });
            if let Some(Stall { from, to, unacked: Some(true) }) = common
                && to.since(from) >= MIN_STALL
            {
                found.push((from, to));
            }
        }
    }
    merge(found)
}

/// Merges overlapping stalls: several subflows report one stall of the connection.
fn merge(mut stalls: Vec<(Nanos, Nanos)>) -> Vec<(Nanos, Nanos)> {
    stalls.sort();
    let mut merged: Vec<(Nanos, Nanos)> = Vec::new();
    for (from, to) in stalls {
        match merged.last_mut() {
            Some(last) if from < last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}
