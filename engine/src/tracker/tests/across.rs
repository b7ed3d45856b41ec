// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections to one address are compared with each other where that is asked for.

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::sample::SampleBatch;

use super::*;
use crate::bottleneck::tests::batches;
use crate::bottleneck::tests::simulator::{BUSY, Sender, on, run};

/// A connection with one subflow, both known by this number, to an address.
fn events(number: u64, remote: &str) -> [KernelEvent; 2] {
    let mine = |msk: &mut MskView| {
        msk.cookie = SocketCookie(100 + number);
        msk.token = Token(u32::try_from(number).unwrap());
    };
    let mut whole: ConnectionRecord = connection(6 * SECOND, 1_000);
    mine(&mut whole.msk);
    let mut part = subflow(number, 6 * SECOND, 500);
    mine(part.msk.as_mut().unwrap());
    part.remote = format!("{remote}:80").parse().unwrap();
    [KernelEvent::Connection(whole), KernelEvent::Subflow(part)]
}

/// What is known after these samples of connections to these addresses.
fn compared(remotes: &[&str], samples: Vec<SampleBatch>) -> Snapshot {
    let mut tracker = tracker(Closed::Keep).across();
    for (number, remote) in (1..).zip(remotes) {
        for event in &events(number, remote) {
            tracker.apply(event);
        }
    }
    tick(&mut tracker, SECOND);
    for samples in samples {
        tracker.apply(&KernelEvent::Samples(samples));
    }
    tick(&mut tracker, 6 * SECOND + SECOND / 10)
}

#[test]
fn two_connections_through_one_queue_share_a_bottleneck() {
    let snapshot = compared(&["10.0.0.2"; 2], batches(&run(&[BUSY], &on(0, 2), 5, 2)));
    let across = snapshot.across.unwrap();
    let [destination] = &across.destinations[..] else { panic!("{across:?}") };
    assert_eq!((destination.remote.to_string().as_str(), destination.left_out), ("10.0.0.2", 0));
    let [pair] = destination.pairs[..] else { panic!("{destination:?}") };
    assert_eq!(pair.verdict, Verdict::Shared);
    assert_ne!(destination.connection_of(pair.a), destination.connection_of(pair.b));
    assert_eq!(destination.groups, [[pair.a, pair.b]]);
    assert!(snapshot.connections.iter().all(|one| one.extra_subflows.is_none()), "each is enough for itself");
}

#[test]
fn connections_to_addresses_of_their_own_are_not_compared() {
    let found = compared(&["10.0.0.2", "10.0.0.3"], batches(&run(&[BUSY], &on(0, 2), 5, 2))).across.unwrap();
    assert_eq!(found, mpwatch_model::across::Across::default());
}

#[test]
fn an_address_has_room_for_sixteen_and_the_rest_is_counted() {
    let crowd: Vec<Sender> = (0..20).map(|n| Sender { link: n, rtt_ms: 10, start_ms: 0 }).collect();
    let rows = run(&[BUSY; 20], &crowd, 1, 1);
    let found = compared(&["10.0.0.2"; 20], batches(&rows)).across.unwrap();
    let [destination] = &found.destinations[..] else { panic!("{found:?}") };
    assert_eq!((destination.subflows.len(), destination.left_out), (16, 4));
    assert_eq!(destination.pairs.len(), 16 * 15 / 2);
}

#[test]
fn where_it_was_not_asked_for_nothing_is_said() {
    let mut tracker = tracker(Closed::Keep);
    assert_eq!(tick(&mut tracker, SECOND).across, None);
}
