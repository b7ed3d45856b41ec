// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calendar is set during a run, or between two runs.

use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A snapshot `second` seconds after the first one by the boot clock, while the calendar is `ahead` seconds ahead.
fn dated(second: i64, ahead: i64, connections: &[Connection]) -> Arc<Snapshot> {
    let by_ns = ahead * 1_000_000_000;
    let mut connections = connections.to_vec();
    for flow in &mut connections {
        flow.shift(by_ns);
    }
    let mut snapshot = fixture::snapshot(connections);
    snapshot.at += SignedDuration::from_secs(second + ahead);
    snapshot.boot_epoch_ns = by_ns;
    Arc::new(snapshot)
}

fn ids(file: &std::path::Path) -> Vec<u64> {
    let mut ids: Vec<u64> = read(file).0.connections.iter().map(|connection| connection.id.birth.0).collect();
    ids.sort_unstable();
    ids
}

/// An open connection that is old enough to be sampled.
fn long(age: i64) -> Connection {
    let mut flow = another(&fixture::connection(1, 2), 7);
    flow.age_s = age as f64;
    // A connection without traffic would be sampled rarely.
    flow.bytes_sent = Some(Bytes(1_000_000 + age.unsigned_abs()));
    flow
}

#[test]
fn rows_follow_a_calendar_that_is_set_during_the_run() {
    // Samples are 10 s apart, so a row that is moved by 10 s must not collide with the next row.
    for ahead in [10 * DAY, 10, -3 * HOUR] {
        let mut written = Vec::new();
        for ahead in [0, ahead] {
            let (_folder, file) = folder();
            let store = Store::open(&file, &Limits::none()).unwrap();
            let last = if ahead == 0 { 0 } else { ahead };
            store.deliver(&dated(0, 0, &[another(&fixture::closed(1), 1), long(1_000)]));
            for second in [10, 20, 30] {
                store.deliver(&dated(second, 0, &[long(1_000 + second)]));
            }
            store.deliver(&dated(40, last, &[another(&fixture::closed(1), 2), long(1_040)]));
            store.deliver(&dated(50, last, &[long(1_050)]));
            assert_eq!(store.close(), StoreLosses::default());
            written.push(read(&file));
        }
        let [(mut expected, samples), (found, moved)] = <[_; 2]>::try_from(written).unwrap();
        let by_ns = ahead * 1_000_000_000;
        let shifted = |at| mpwatch_model::kernel::clock::shifted(at, by_ns);
        expected.connections.iter_mut().for_each(|flow| flow.shift(by_ns));
        (expected.run.from, expected.run.to) = (shifted(expected.run.from), shifted(expected.run.to));
        assert_eq!(found.connections, expected.connections, "{ahead} s");
        assert_eq!((found.run.from, found.run.to), (expected.run.from, expected.run.to));
        let times =
            |all: &CounterSeries| -> Vec<_> { all.values().flatten().map(|sample| sample.at).collect() };
        assert!(times(&samples).len() >= 10);
        assert_eq!(times(&moved), times(&samples).into_iter().map(shifted).collect::<Vec<_>>());
    }
}

#[test]
fn a_final_state_of_a_replaced_snapshot_follows_the_calendar() {
    let earlier = Batch::new(&dated(0, 0, &[fixture::closed(1)]));
    let (batch, lost) = Batch::new(&dated(1, DAY, &[])).replacing(earlier, 10);
    let mut expected = fixture::closed(1);
    expected.shift(DAY * 1_000_000_000);
    assert_eq!((&batch.finals[0].connection, lost), (&expected, 0));
}

#[test]
fn the_first_start_with_the_right_calendar_deletes_nothing() {
    let (_folder, file) = folder();
    let limits = Limits { age: Some(Duration::from_hours(1)), ..Limits::none() };
    let run = |snapshots: &[Arc<Snapshot>]| {
        let store = Store::open(&file, &limits).unwrap();
        for snapshot in snapshots {
            store.deliver(snapshot);
        }
        assert_eq!(store.close(), StoreLosses::default());
    };
    // Two runs whose calendar is ten days behind.
    run(&[dated(0, 0, &[another(&fixture::closed(1), 1)])]);
    run(&[dated(5, 0, &[another(&fixture::closed(1), 2)])]);
    let mut third = another(&fixture::closed(1), 3);
    third.shift(10 * DAY * 1_000_000_000);
    run(&[dated(10 * DAY, 0, &[third])]);
    assert_eq!(ids(&file), [1, 2, 3]);
    // After another hour of runs, all three connections are older than the limit.
    run(&[
        dated(10 * DAY + 10, 0, &[]),
        dated(10 * DAY + HOUR + 60, 0, &[]),
        dated(10 * DAY + HOUR + 180, 0, &[]),
    ]);
    assert_eq!(ids(&file), [0_u64; 0]);
}

#[test]
fn a_calendar_that_jumps_ahead_deletes_nothing() {
    let (_folder, file) = folder();
    let limits = Limits { age: Some(Duration::from_hours(1)), ..Limits::none() };
    let store = Store::open(&file, &limits).unwrap();
    store.deliver(&dated(0, 0, &[another(&fixture::closed(1), 1)]));
    store.close();
    let store = Store::open(&file, &limits).unwrap();
    store.deliver(&dated(60, 0, &[another(&fixture::closed(1), 2)]));
    store.deliver(&dated(120, 365 * DAY, &[another(&fixture::closed(1), 3)]));
    store.deliver(&dated(240, 365 * DAY, &[]));
    store.deliver(&dated(360, 0, &[]));
    store.close();
    assert_eq!(ids(&file), [1, 2, 3]);
}

/// The first run's calendar was wrong, and was set before the second run of the same boot.
#[test]
fn a_calendar_that_is_set_between_two_runs_moves_the_rows_of_the_first() {
    let record = |ahead: i64, open: bool| {
        let (_folder, file) = folder();
        let run = |snapshots: &[Arc<Snapshot>]| {
            let store = Store::open(&file, &Limits::none()).unwrap();
            for snapshot in snapshots {
                store.deliver(snapshot);
            }
            assert_eq!(store.close(), StoreLosses::default());
        };
        let closed = another(&fixture::closed(1), 3);
        run(&[dated(0, ahead, &[long(100), closed.clone()]), dated(1, ahead, &[long(101), closed])]);
        let mut later = super::runs::adopted(&long(1));
        if !open {
            later.closed_at = Some(fixture::at(32_000_000));
        }
        run(&[dated(20, 0, &[later.clone()]), dated(21, 0, &[later])]);
        let (report, samples) = read(&file);
        (report.connections, report.run.from, report.run.to, samples)
    };
    for (ahead, open) in [(HOUR, true), (HOUR, false), (-20_000 * DAY, true), (-20_000 * DAY, false)] {
        assert_eq!(record(ahead, open), record(0, open), "{ahead} s, {open}");
    }
}
