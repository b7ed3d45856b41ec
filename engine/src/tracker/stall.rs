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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stall(from: u64, to: u64, unacked: bool) -> Stall {
        Stall { from: Nanos(from * MS), to: Nanos(to * MS), unacked: Some(unacked) }
    }

    fn subflow(stalls: &[Stall], progress: u64, unacked: bool) -> SubflowStalls<'_> {
        SubflowStalls {
            stalls,
            progress: Some(Nanos(progress * MS)),
            unacked,
            busy_since: None,
            is_busy_unknown: true,
        }
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
    fn a_stall_of_one_subflow_is_not_a_stall_of_the_connection() {
        let quiet = [stall(1_000, 3_000, true)];
        let subflows = [subflow(&quiet, 4_000, true), subflow(&[], 4_000, true)];
        assert!(of_connection(&subflows).is_empty());
    }

    #[test]
    fn the_end_of_an_old_stall_does_not_make_time_without_data_a_stall() {
        // The data of the failed path was delivered on the other path, which had nothing in flight from 18.0 s to 20.0 s.
        let failed = [stall(6_000, 19_384, true)];
        let idle = [Stall { unacked: None, ..stall(18_000, 20_000, true) }];
        assert!(of_connection(&[subflow(&failed, 19_384, false), subflow(&idle, 20_000, false)]).is_empty());
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

    /// A burst after idle time has ended the wait of the first subflow; the record of the second subflow was read before the burst.
    #[test]
    fn idle_time_before_a_burst_is_not_a_stall_of_the_subflow_that_was_read_first() {
        let idle = [Stall { from: Nanos(1_000 * MS), to: Nanos(1_328 * MS), unacked: None }];
        for busy_since in [None, Some(Nanos(1_329 * MS))] {
            let read_first =
                SubflowStalls { busy_since, is_busy_unknown: false, ..subflow(&[], 1_002, true) };
            assert!(of_connection(&[subflow(&idle, 1_328, true), read_first]).is_empty());
        }
        let failed = SubflowStalls { busy_since: Some(Nanos(1_001 * MS)), ..subflow(&[], 1_002, true) };
        assert_eq!(in_ms(of_connection(&[subflow(&idle, 1_328, true), failed])), [(1_002, 1_328)]);
    }

    #[test]
    fn an_idle_application_is_not_a_stall() {
        let idle = [stall(1_000, 5_000, false)];
        assert!(of_connection(&[subflow(&idle, 5_000, false)]).is_empty());
    }
}
