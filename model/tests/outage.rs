// SPDX-License-Identifier: MIT OR Apache-2.0
//! Path failures and outages of the sample connections.
#![allow(clippy::unwrap_used, reason = "a test")]

use mpwatch_fixtures as fixture;
use mpwatch_model::outage::{longest, main_outage, outages, path_failure};
use mpwatch_model::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::unit::Micros;

fn stall(micros: i64, gap: u64) -> TimelineEntry {
    let source = ObservedBy::Tracepoint;
    TimelineEntry { at: fixture::at(micros), source, event: TimelineEvent::Stalled { gap: Micros(gap) } }
}

#[test]
fn a_path_fails_at_the_start_of_the_stall_before_its_end() {
    let connection = fixture::failover(1);
    let failure = path_failure(&connection, &connection.subflows[0]).unwrap();
    assert_eq!((failure.at, failure.noticed), (fixture::at(5_600_200), fixture::at(6_000_000)));
    assert_eq!(path_failure(&connection, &connection.subflows[1]), None, "no event says when");
    assert_eq!(path_failure(&connection, &connection.subflows[2]), None, "it works");
}

#[test]
fn a_path_that_works_again_has_not_failed() {
    let mut connection = fixture::failover(1);
    connection.subflows[0].closed = None;
    assert_eq!(path_failure(&connection, &connection.subflows[0]), None);
    connection.subflows[0].stale = true;
    assert!(path_failure(&connection, &connection.subflows[0]).is_some());
}

#[test]
fn a_stall_long_before_the_failure_does_not_belong_to_it() {
    let mut connection = fixture::failover(1);
    connection.timeline.retain(|entry| !matches!(entry.event, TimelineEvent::Stalled { .. }));
    connection.timeline.insert(1, stall(2_900_000, 100_000));
    let failure = path_failure(&connection, &connection.subflows[0]).unwrap();
    assert_eq!(failure.at, failure.noticed);
}

#[test]
fn stalls_in_quick_succession_are_one_outage() {
    let mut connection = fixture::failover(1);
    connection.timeline.extend([
        stall(6_050_200, 162_000),
        stall(6_260_200, 163_000),
        stall(10_000_000, 100_000),
    ]);
    let found = outages(&connection);
    let [first, second] = found[..] else { panic!("{found:?}") };
    assert_eq!((first.duration, first.stalled, first.stalls), (Micros(823_000), Micros(737_300), 3));
    assert_eq!((second.from, second.stalls), (fixture::at(10_000_000), 1));
}

#[test]
fn an_outage_with_a_path_failure_outranks_a_longer_one() {
    let mut connection = fixture::failover(1);
    connection.timeline.push(stall(14_000_000, 900_000));
    let found = outages(&connection);
    assert_eq!(main_outage(&connection, &found).unwrap().duration, Micros(412_300));
    assert_eq!(longest(&found).unwrap().duration, Micros(900_000));
    let mut healthy = connection.clone();
    healthy.subflows[0].closed = None;
    assert_eq!(main_outage(&healthy, &found).unwrap().duration, Micros(900_000), "no path failed");
    assert_eq!(main_outage(&healthy, &[]), None);
}
