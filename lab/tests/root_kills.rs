// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root tests of path failures: each failure closes one subflow, the connection continues on the other subflow,
//! and no byte is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mpwatch_lab::topology::{JoinBy, LinkSpec, PathFailure, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Control, Transfer, TransferOutcome, Workload};
use mpwatch_lab::{Topology, mib, poll_until};
use mpwatch_testkit::{established, may_run_as_root};
use std::sync::Arc;
use std::time::Duration;

const BYTES: u64 = 4_000_000;
const TIMEOUT: Duration = Duration::from_secs(30);

fn build(join: JoinBy, link: LinkSpec) -> Topology {
    let path = PathSpec { link, ..PathSpec::default() };
    Topology::build(&TopologySpec {
        paths: vec![path; 2],
        join,
        quick_timeouts: true,
        ..TopologySpec::default()
    })
    .unwrap()
}

/// Transfers bytes, makes path 1 fail as soon as both paths carry data, and holds the connection until `is_noticed` returns true.
fn fail_during_transfer(
    topology: &Topology,
    failure: PathFailure,
    mut is_noticed: impl FnMut(&mib::Counters) -> bool,
) -> TransferOutcome {
    let second = topology.path(1).unwrap();
    let spec = topology.traffic(Workload::upload(BYTES)).unwrap();
    let control = Arc::new(Control::holding());
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    poll_until("bytes on the second path", TIMEOUT, || {
        (second.client_counters().unwrap().tx_bytes > 500_000).then_some(())
    })
    .unwrap();
    second.fail(failure).unwrap();
    poll_until("the failure to be noticed", TIMEOUT, || {
        is_noticed(&mib::read(topology.client()).unwrap()).then_some(())
    })
    .unwrap();
    poll_until("all bytes to arrive", TIMEOUT, || (control.received() == BYTES).then_some(())).unwrap();
    control.release();
    let outcome = transfer.join().unwrap();
    assert_eq!(outcome.client.first_error(), None);
    let (ours, theirs) = (&outcome.client.connections[0], &outcome.server.connections[0]);
    assert_eq!((ours.sent, ours.sent_hash), (theirs.received, theirs.received_hash));
    assert!(theirs.receive_time < theirs.transfer_time, "the stream ended after the last byte: {theirs:?}");
    outcome
}

fn subflows_left(outcome: &TransferOutcome) -> usize {
    outcome.client.connections[0].socket_info.as_ref().unwrap().subflows.len()
}

fn link() -> LinkSpec {
    LinkSpec::rate(30.0, Duration::from_millis(50))
}

#[test]
fn a_reset_closes_one_subflow_and_the_other_delivers() {
    if !may_run_as_root() {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, link());
    let outcome =
        fail_during_transfer(&topology, PathFailure::Reset, |counters| counters["MPTcpExtMPRstTx"] > 0);
    assert_eq!(subflows_left(&outcome), 1);
}

#[test]
fn deleting_the_clients_endpoint_closes_its_subflow() {
    if !may_run_as_root() {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, link());
    // The option REMOVE_ADDR may be lost, because TCP does not acknowledge options. The server then only notices that the subflow ends.
    let has_closed = |_: &mib::Counters| established(topology.server()) == 1;
    let outcome = fail_during_transfer(&topology, PathFailure::EndpointDeleted, has_closed);
    assert_eq!(subflows_left(&outcome), 1);
}

#[test]
fn the_server_removes_its_announced_address() {
    if !may_run_as_root() {
        return;
    }
    let topology = build(JoinBy::ServerSignal, link());
    let has_closed = |_: &mib::Counters| established(topology.client()) == 1;
    let outcome = fail_during_transfer(&topology, PathFailure::PeerRemovesAddress, has_closed);
    assert_eq!(subflows_left(&outcome), 1);
}

#[test]
fn bytes_of_a_link_that_goes_down_arrive_over_the_other_path() {
    if !may_run_as_root() {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, link());
    fail_during_transfer(&topology, PathFailure::LinkDown, |_| true);
    topology.path(1).unwrap().restore().unwrap();
}

#[test]
fn bytes_lost_in_a_black_hole_arrive_over_the_other_path() {
    if !may_run_as_root() {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, link().rtt(Duration::from_millis(4)));
    fail_during_transfer(&topology, PathFailure::Blackhole, |counters| counters["MPTcpExtMPTCPRetrans"] > 0);
    topology.path(1).unwrap().restore().unwrap();
    let spec = topology.traffic(Workload::upload(BYTES)).unwrap();
    let outcome = mpwatch_lab::traffic::run(topology.client(), topology.server(), &spec).unwrap();
    assert_eq!(subflows_left(&outcome), 2);
}

#[test]
fn dropping_a_lab_removes_sockets_that_still_retransmit() {
    if !may_run_as_root() {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, link());
    fail_during_transfer(&topology, PathFailure::LinkDown, |_| true);
    // The threads have closed their sockets, but the kernel retransmits for minutes.
    let has_orphan = || {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        table.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some("04"))
    };
    poll_until("an orphan in FIN_WAIT1", TIMEOUT, || {
        topology.client().enter(has_orphan).unwrap().then_some(())
    })
    .unwrap();
    let namespace = std::fs::File::open(topology.client().path()).unwrap();
    drop(topology);
    let left = std::thread::spawn(move || {
        nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        has_orphan()
    });
    assert!(!left.join().unwrap());
}
