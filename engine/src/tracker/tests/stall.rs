// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stalls of a connection, from the stalls of its subflows.

use mpwatch_model::kernel::event::Stall;
use mpwatch_model::unit::Nanos;

use crate::tracker::stall::{SubflowStalls, of_connection};

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
        let read_first = SubflowStalls { busy_since, is_busy_unknown: false, ..subflow(&[], 1_002, true) };
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
