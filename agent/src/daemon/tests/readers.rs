// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers that are slow, stalled or gone: what they keep in memory, and when they lose their place.

use std::io::Read as _;

use mpwatch_fixtures as fixture;

use super::*;

#[test]
fn a_slow_reader_is_idle_until_it_has_read_everything() {
    let (stream, mut peer) = UnixStream::pair().unwrap();
    let (mut reader, _lines) = Reader::new(stream);
    let output = Arc::clone(&reader.output);
    reader.note_progress();
    assert!(reader.behind_since.is_none(), "nothing was written");
    // The snapshot of a quiet machine fits into the kernel's buffer: no write ever waits.
    output.write(&"x".repeat(1_300)).unwrap();
    reader.note_progress();
    let behind = reader.behind_since.unwrap();
    for _ in 0..10 {
        peer.read_exact(&mut [0; 100]).unwrap();
        reader.note_progress();
    }
    assert_eq!(reader.behind_since, Some(behind), "a partial read does not count");
    assert!(reader.idle_since().is_none(), "the timeout has not elapsed");
    reader.behind_since = behind.checked_sub(BEHIND_TIMEOUT);
    assert!(reader.idle_since().is_some());
    peer.read_exact(&mut [0; 300]).unwrap();
    reader.note_progress();
    assert!(reader.idle_since().is_none(), "the reader has read everything");
}

#[test]
fn a_reader_that_has_left_gives_up_its_place_before_the_next_snapshot() {
    let shared = Shared::new(Arc::new(Status::new(&Config::default())));
    let mut peers = Vec::new();
    let mut admit = || {
        let (stream, peer) = UnixStream::pair().unwrap();
        peers.push(peer);
        shared.admit(Reader::new(stream).0)
    };
    assert!((0..MAX_READERS).all(|_| admit()) && !admit());
    peers.clear();
    let (stream, _peer) = UnixStream::pair().unwrap();
    assert!(shared.admit(Reader::new(stream).0));
    assert_eq!(lock(&shared.readers).len(), 1);
}
fn shared() -> Shared {
    Shared::new(Arc::new(Status::new(&Config::default())))
}

#[test]
fn readers_that_read_nothing_share_one_text_of_the_latest_snapshot() {
    let shared = Arc::new(shared());
    // More than a socket buffer holds.
    let connections = (1..=500).map(|token| fixture::connection(token, 2)).collect();
    shared.keep(Arc::new(fixture::snapshot(connections)));
    let attached: Vec<_> = (0..4)
        .map(|_| {
            let (stream, peer) = UnixStream::pair().unwrap();
            let (reader, lines) = Reader::new(stream);
            let (shared, output) = (Arc::clone(&shared), Arc::clone(&reader.output));
            (reader, peer, thread::spawn(move || shared.serve(&output, lines)))
        })
        .collect();
    let readers = || lock(&shared.latest).as_ref().map_or(0, |text| Arc::strong_count(text) - 1);
    let deadline = Instant::now() + Duration::from_secs(20);
    while readers() < attached.len() {
        assert!(Instant::now() < deadline, "{} readers have the text", readers());
        thread::sleep(Duration::from_millis(5));
    }
    let text = lock(&shared.latest).clone().unwrap();
    assert_eq!(shared.unread(), 0, "all readers share the latest text");
    shared.keep(Arc::new(fixture::snapshot(Vec::new())));
    assert!(lock(&shared.latest).is_none(), "a new reader gets the next snapshot");
    assert_eq!(shared.unread(), text.len(), "one text");
    for (reader, peer, serving) in attached {
        drop((reader, peer));
        assert!(serving.join().unwrap().is_err(), "the reader has left");
    }
    drop(text);
    assert_eq!(shared.unread(), 0);
}

#[test]
fn stalled_readers_are_disconnected_when_unread_snapshots_take_too_much_memory() {
    for (size, remaining) in [(MAX_UNREAD_BYTES / 2, 2), (MAX_UNREAD_BYTES, 1)] {
        let shared = shared();
        let unread = shared.line(&"x".repeat(size)).unwrap();
        let (streams, _peers): (Vec<_>, Vec<_>) = (0..2).map(|_| UnixStream::pair().unwrap()).unzip();
        let (readers, queues): (Vec<_>, Vec<_>) = streams.into_iter().map(Reader::new).unzip();
        *lock(&readers[0].output.stalled_since) = Instant::now().checked_sub(STALL_TIMEOUT);
        *lock(&shared.readers) = readers;
        let (snapshots, incoming) = mpsc::sync_channel(1);
        snapshots.send(Arc::new(fixture::snapshot(Vec::new()))).unwrap();
        drop(snapshots);
        shared.distribute(&incoming);
        let received = queues.iter().filter(|queue| queue.try_recv().is_ok()).count();
        assert_eq!(received, remaining, "{size}");
        let disconnected = shared.status.clients_refused.load(Ordering::Relaxed);
        assert_eq!(disconnected, 2 - u64::try_from(remaining).unwrap());
        drop(unread);
    }
}
