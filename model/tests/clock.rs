// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times are shifted when the calendar clock is set.
#![allow(clippy::unwrap_used, reason = "a test")]

use jiff::Timestamp;
use mpwatch_fixtures as fixture;
use mpwatch_model::kernel::clock::{shifted, step};

#[test]
fn all_times_of_a_connection_move_together() {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let before = fixture::failover(2);
    let mut after = before.clone();
    after.shift(HOUR_NS);
    let (text, moved) = [&before, &after].map(|state| serde_json::to_string(state).unwrap()).into();
    let times =
        |text: &str| -> Vec<Timestamp> { text.split('"').filter_map(|word| word.parse().ok()).collect() };
    let expected: Vec<_> = times(&text).into_iter().map(|at| shifted(at, HOUR_NS)).collect();
    assert!(expected.len() > 5);
    assert_eq!(times(&moved), expected);
}

#[test]
fn a_slewed_clock_is_not_a_step() {
    assert_eq!((step(5, 1_000_000_005), step(5, 1_000_000_006)), (None, Some(1_000_000_001)));
    assert_eq!(step(0, -2_000_000_000), Some(-2_000_000_000));
}
