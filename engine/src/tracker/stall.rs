// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stalls of a connection: intervals in which no subflow made progress. Each subflow records its own stalls; the connection stalls where
//! the stalls of all subflows overlap. After the failure of a path this is the failover gap. Pure.

use mpwatch_model::kernel::event::{MIN_STALL, Stall};
use mpwatch_model::unit::Nanos;

/// The stalls of one subflow.
pub(super) struct SubflowStalls<'a> {
    /// Those that have ended, oldest first.
    pub(super) stalls: &'a [Stall],
    /// Its last progress, when a stall may have begun. `None`: it never made progress.
    pub(super) progress: Option<Nanos>,
    /// Sent data was not acknowledged at that time.
    pub(super) unacked: bool,
    /// Since when it has had data in flight. Outer `None`: unknown; inner `None`: nothing is in flight.
    pub(super) busy_since: Option<Option<Nanos>>,
}

impl SubflowStalls<'_> {
    /// Its latest stall that overlaps with `[from, to]`. `None`: it made progress.
    fn stall_in(&self, from: Nanos, to: Nanos) -> Option<Stall> {
        let Some(progress) = self.progress else { return Some(Stall { from: Nanos(0), to, unacked: None }) };
        if progress + MIN_STALL <= to {
            let is_used = self.busy_since.is_none_or(|since| since.is_some_and(|since| since < to));
            return Some(Stall { from: progress, to, unacked: is_used.then_some(self.unacked) });
        }
        self.stalls.iter().rev().find(|stall| stall.from < to && from < stall.to).copied()
    }
}

/// The overlap of two stalls. Whether data was unacknowledged is known best by the stall that begins later.
fn overlap(one: Stall, other: Stall) -> Stall {
    let (later, earlier) = if other.from > one.from { (other, one) } else { (one, other) };
    let unacked = later.unacked.or(earlier.unacked);
    Stall { from: one.from.max(other.from), to: one.to.min(other.to), unacked }
}

/// Stalls of the connection with unacknowledged data, oldest first: from, to.
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

/// Merges overlapping stalls, of which each subflow contributes one.
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stall(from: u64, to: u64, unacked: bool) -> Stall {
        Stall { from: Nanos(from * MS), to: Nanos(to * MS), unacked: Some(unacked) }
    }

    fn subflow(stalls: &[Stall], progress: u64, unacked: bool) -> SubflowStalls<'_> {
        SubflowStalls { stalls, progress: Some(Nanos(progress * MS)), unacked, busy_since: None }
    }

    fn in_ms(stalls: Vec<(Nanos, Nanos)>) -> Vec<(u64, u64)> {
        stalls.into_iter().map(|(from, to)| (from.0 / MS, to.0 / MS)).collect()
    }

    #[test]
    fn a_failed_path_causes_a_gap_until_another_path_makes_progress() {
        let idle_backup = [stall(50, 10_400, true)];
        let subflows = [subflow(&[], 10_000, true), subflow(&idle_backup, 12_000, false)];
        assert_eq!(in_ms(of_connection(&subflows)), [(10_000, 10_400)]);
    }

    #[test]
    fn a_stall_of_one_subflow_is_not_one_of_the_connection() {
        let quiet = [stall(1_000, 3_000, true)];
        let subflows = [subflow(&quiet, 4_000, true), subflow(&[], 4_000, true)];
        assert!(of_connection(&subflows).is_empty());
    }

    #[test]
    fn overlapping_stalls_are_one_stall_of_the_connection() {
        let (first, second) = ([stall(1_000, 1_500, true)], [stall(1_050, 1_600, true)]);
        let subflows = [subflow(&first, 9_000, false), subflow(&second, 9_000, false)];
        assert_eq!(in_ms(of_connection(&subflows)), [(1_050, 1_500)]);
    }

    #[test]
    fn an_old_stall_of_a_failed_path_does_not_make_later_idle_time_a_stall() {
        let idle = [stall(13_000, 15_000, false)];
        assert!(of_connection(&[subflow(&[], 12_000, true), subflow(&idle, 15_000, false)]).is_empty());
    }

    /// The burst after idle time has ended the first subflow's wait; the record of the second one is older.
    #[test]
    fn idle_time_before_a_burst_is_not_a_stall_of_the_subflow_that_was_read_first() {
        let idle = [Stall { from: Nanos(1_000 * MS), to: Nanos(1_328 * MS), unacked: None }];
        for busy_since in [None, Some(Nanos(1_329 * MS))] {
            let read_first = SubflowStalls { busy_since: Some(busy_since), ..subflow(&[], 1_002, true) };
            assert!(of_connection(&[subflow(&idle, 1_328, true), read_first]).is_empty());
        }
        let dead = SubflowStalls { busy_since: Some(Some(Nanos(1_001 * MS))), ..subflow(&[], 1_002, true) };
        assert_eq!(in_ms(of_connection(&[subflow(&idle, 1_328, true), dead])), [(1_002, 1_328)]);
    }

    #[test]
    fn an_idle_application_is_not_a_stall() {
        let idle = [stall(1_000, 5_000, false)];
        assert!(of_connection(&[subflow(&idle, 5_000, false)]).is_empty());
    }
}
