// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples find their connection, and its verdicts are shown.

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::connection::Connection;

use super::*;
use crate::bottleneck::tests::detection::batches;
use crate::bottleneck::tests::simulator::{BUSY, on, run};

/// A connection with subflows 1 and 2, whose samples of five seconds come before or behind their first records.
fn seen(samples_first: bool, traces: Traces) -> Connection {
    let mut tracker = tracker(Closed::Keep);
    tracker.start.traces = traces;
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
fn what_shares_is_shown_with_since_when_whatever_comes_first() {
    for samples_first in [false, true] {
        let connection = seen(samples_first, Traces::ALL);
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
fn where_nobody_looks_nothing_is_said() {
    let connection = seen(false, Traces { samples: false, ..Traces::ALL });
    assert_eq!((connection.bottlenecks, connection.extra_subflows), (None, None));
}

#[test]
fn verdicts_on_a_closed_connection_stay() {
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
