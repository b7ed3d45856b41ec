// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples are assigned to their connection, and the verdicts of the connection are reported.

use mpwatch_fixtures::delay_samples::batches;
use mpwatch_fixtures::simulator::{BUSY, on, run};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::event::{KernelEvent, Traces};

use super::records::{
    SECOND, closed_connection, closed_subflow, connection, subflow, tick, tracker, tracker_with,
};
use crate::tracker::Closed;

/// A connection with subflows 1 and 2, whose samples of five seconds arrive before or after their first records.
fn tracked(samples_first: bool, traces: Traces) -> Connection {
    let mut tracker = tracker_with(Closed::Keep, traces);
    let mut join = subflow(2, 6 * SECOND, 500);
    (join.mp_capable, join.mp_join) = (false, true);
    let records = [
        KernelEvent::Connection(connection(6 * SECOND, 1_000)),
        KernelEvent::Subflow(subflow(1, 6 * SECOND, 500)),
        KernelEvent::Subflow(join),
    ];
    let samples = batches(&run(&[BUSY], &on(0, 2), 5, 2)).into_iter().map(KernelEvent::Samples);
    let events: Vec<KernelEvent> = if samples_first {
        samples.chain(records).collect()
    } else {
        records.into_iter().chain(samples).collect()
    };
    for event in &events {
        tracker.apply(event);
    }
    let snapshot = tick(&mut tracker, 6 * SECOND + SECOND / 10);
    snapshot.connections[0].clone()
}

#[test]
fn a_shared_bottleneck_is_reported_whether_samples_or_records_arrive_first() {
    for samples_first in [false, true] {
        let connection = tracked(samples_first, Traces::ALL);
        assert_eq!(connection.extra_subflows, Some(1));
        let found = connection.bottlenecks.unwrap();
        let ids: Vec<SubflowId> = connection.subflows.iter().map(|subflow| subflow.id).collect();
        assert_eq!(found.groups, [ids]);
        let [pair] = found.pairs[..] else { panic!("{:?}", found.pairs) };
        assert_eq!(pair.verdict, Verdict::Shared);
        let since = pair.since.unwrap();
        assert!((1_000_000..4_000_000).contains(&since.0), "{since:?} after the opening");
    }
}

#[test]
fn pairs_of_a_peer_that_joins_and_leaves_are_bounded() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 500)));
    (11..331).for_each(|cookie| tracker.apply(&closed_subflow(cookie, (cookie - 8) * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(5, 400 * SECOND, 10)));
    let connection = tick(&mut tracker, 400 * SECOND).connections.remove(0);
    let found = connection.bottlenecks.unwrap();
    assert_eq!((connection.subflows.len(), found.pairs.len()), (321, 32 * 31 / 2));
    let names =
        |cookie: u64| found.pairs.iter().any(|pair| pair.a.cookie.0 == cookie || pair.b.cookie.0 == cookie);
    assert_eq!(
        [5, 330, 300, 299].map(names),
        [true, true, true, false],
        "the open one, and the last that ended"
    );
}

#[test]
fn without_samples_there_are_no_verdicts() {
    let connection = tracked(false, Traces { samples: false, ..Traces::ALL });
    assert_eq!((connection.bottlenecks, connection.extra_subflows), (None, None));
}

#[test]
fn the_last_verdicts_on_a_closed_connection_are_kept() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&KernelEvent::Connection(connection(SECOND, 0)));
    for cookie in [1, 2] {
        tracker.apply(&KernelEvent::Subflow(subflow(cookie, SECOND, 0)));
    }
    for samples in batches(&run(&[BUSY], &on(0, 2), 5, 2)) {
        tracker.apply(&KernelEvent::Samples(samples));
    }
    tracker.apply(&closed_connection(6 * SECOND, 1_000));
    for cookie in [1, 2] {
        tracker.apply(&closed_subflow(cookie, 6 * SECOND, 500));
    }
    for second in [7, 20, 40] {
        tick(&mut tracker, second * SECOND);
    }
    let report = tracker.report();
    assert_eq!(report.connections[0].extra_subflows, Some(1));
}
