// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that attaches gets the snapshots that the daemon kept, in order and marked as earlier. Their number and size are bounded.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mpwatch_fixtures as fixture;

use super::*;
use crate::client::Daemon;

fn shared() -> Arc<Shared> {
    Arc::new(Shared::new(Arc::new(Status::new(&Config::default()))))
}

/// The snapshot of a second, with this number of connections.
fn snapshot(second: i64, connections: u32) -> Arc<Snapshot> {
    let connections = (1..=connections).map(|token| fixture::connection(token, 2)).collect();
    Arc::new(Snapshot { at: Timestamp::from_second(second).unwrap(), ..fixture::snapshot(connections) })
}

/// Returns a client that has read the greeting, the sender of its new snapshots, and the thread that serves it.
fn attach(shared: &Arc<Shared>) -> (Daemon, SyncSender<Line>, JoinHandle<io::Result<()>>) {
    let (server, client) = UnixStream::pair().unwrap();
    let (Reader { lines, output, .. }, incoming) = Reader::new(server);
    let shared = Arc::clone(shared);
    let serving = thread::spawn(move || shared.serve(&output, incoming));
    (Daemon::greet(client, Path::new("test"), &Arc::default()).unwrap(), lines, serving)
}

fn seconds(snapshots: &[Snapshot]) -> Vec<i64> {
    snapshots.iter().map(|snapshot| snapshot.at.as_second()).collect()
}

#[test]
fn history_returns_the_earlier_snapshots_and_next_ignores_them() {
    let shared = shared();
    (1..=4).for_each(|second| shared.keep(snapshot(second, 1)));
    let (mut view, lines, serving) = attach(&shared);
    let all = view.history(Timestamp::from_second(1).unwrap()).unwrap();
    assert_eq!(seconds(&all), [2, 3, 4], "the first was shown before");
    assert_eq!(all[0].connections, snapshot(2, 1).connections);
    lines.send(line(&*snapshot(5, 1)).unwrap()).unwrap();
    assert_eq!(view.next().unwrap().unwrap().at.as_second(), 5);
    drop((view, lines));
    serving.join().unwrap().unwrap();

    let (mut list, lines, _) = attach(&shared);
    lines.send(line(&*snapshot(5, 1)).unwrap()).unwrap();
    let current = [(); 2].map(|()| list.next().unwrap().unwrap());
    assert_eq!(seconds(&current), [4, 5], "no earlier snapshots");
}

#[test]
fn a_client_that_attaches_before_the_first_snapshot_waits_for_it() {
    let (mut view, lines, _) = attach(&shared());
    lines.send(line(&*snapshot(1, 1)).unwrap()).unwrap();
    assert_eq!(seconds(&view.history(Timestamp::MIN).unwrap()), [1]);
}

#[test]
fn the_snapshots_that_are_kept_are_bounded_in_number_and_size() {
    let shared = shared();
    let number = i64::try_from(MAX_KEPT).unwrap();
    (1..=10 * number).for_each(|second| shared.keep(snapshot(second, 0)));
    let (mut view, ..) = attach(&shared);
    let kept = seconds(&view.history(Timestamp::MIN).unwrap());
    assert!(kept.iter().copied().eq(9 * number + 1..=10 * number), "the latest: {kept:?}");

    let large = snapshot(0, 2_000);
    let each = size(&large);
    let json = line(&*large).unwrap().len();
    assert!(each > MAX_KEPT_BYTES / 10 && each < MAX_KEPT_BYTES / 2 && json < 4 * each, "{each}, {json}");
    (0..100).for_each(|_| shared.keep(Arc::clone(&large)));
    let recent: Vec<usize> = lock(&shared.recent).iter().map(|(size, _)| *size).collect();
    let earlier: usize = recent[1..].iter().sum();
    assert!(earlier <= MAX_KEPT_BYTES && earlier + each > MAX_KEPT_BYTES - each, "{recent:?}");
    // A snapshot that is larger than the bound is kept alone, because a new client needs it.
    let oversized = snapshot(0, 20_000);
    assert!(size(&oversized) > MAX_KEPT_BYTES);
    (0..3).for_each(|_| shared.keep(Arc::clone(&oversized)));
    assert_eq!(lock(&shared.recent).len(), 1);
}

#[test]
fn a_client_that_does_not_read_keeps_no_snapshot_in_memory() {
    let shared = shared();
    // More than a socket buffer holds.
    let old = snapshot(1, 500);
    let released = Arc::downgrade(&old);
    shared.keep(old);
    (2..=9).for_each(|second| shared.keep(snapshot(second, 500)));
    let (view, lines, serving) = attach(&shared);
    (10..10 + i64::try_from(MAX_KEPT).unwrap()).for_each(|second| shared.keep(snapshot(second, 0)));
    // The thread may still encode the snapshot for the client.
    let deadline = Instant::now() + Duration::from_secs(20);
    while released.upgrade().is_some() {
        assert!(Instant::now() < deadline, "the snapshot is still in memory");
        thread::sleep(Duration::from_millis(5));
    }
    drop((view, lines));
    // The client has left.
    let _ = serving.join().unwrap();
}

#[test]
fn a_client_gets_no_earlier_snapshots_while_unread_ones_take_too_much_memory() {
    let shared = shared();
    (1..=4).for_each(|second| shared.keep(snapshot(second, 1)));
    let unread = shared.line(&"x".repeat(MAX_UNREAD_BYTES)).unwrap();
    let (mut view, ..) = attach(&shared);
    assert_eq!(seconds(&view.history(Timestamp::MIN).unwrap()), [4]);
    drop(unread);
    let (mut view, ..) = attach(&shared);
    assert_eq!(seconds(&view.history(Timestamp::MIN).unwrap()), [1, 2, 3, 4]);
}
