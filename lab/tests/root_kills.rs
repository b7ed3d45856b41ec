// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root tests of path death: each way to die closes one subflow, the connection goes on over the other,
//! and no byte is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mpwatch_lab::topology::{How, JoinBy, PathSpec, Quality, TopologySpec};
use mpwatch_lab::traffic::{Control, Outcome, Transfer, Workload};
use mpwatch_lab::{Topology, may_run, mib, poll_until};
use std::sync::Arc;
use std::time::Duration;

const BYTES: u64 = 8_000_000;
const PATIENCE: Duration = Duration::from_secs(30);

fn build(join: JoinBy, quality: Quality) -> Topology {
    let path = PathSpec { quality, ..PathSpec::default() };
    Topology::build(&TopologySpec {
        paths: vec![path; 2],
        join,
        quick_timeouts: true,
        ..TopologySpec::default()
    })
    .unwrap()
}

/// Transfers bytes, kills path 1 once both paths carry, and holds the end until `sign` is seen.
fn kill_amid(topology: &Topology, how: How, mut sign: impl FnMut(&mib::Counters) -> bool) -> Outcome {
    let second = topology.path(1).unwrap();
    let spec = topology.traffic(Workload::upload(BYTES)).unwrap();
    let control = Arc::new(Control::holding());
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    poll_until("bytes on the second path", PATIENCE, || {
        (second.client_counters().unwrap().tx_bytes > 500_000).then_some(())
    })
    .unwrap();
    second.kill(how).unwrap();
    poll_until("the sign of death", PATIENCE, || sign(&mib::read(topology.client()).unwrap()).then_some(()))
        .unwrap();
    poll_until("all bytes to arrive", PATIENCE, || (control.received() == BYTES).then_some(())).unwrap();
    control.release();
    let outcome = transfer.join().unwrap();
    assert_eq!(outcome.client.first_error(), None);
    let (ours, theirs) = (&outcome.client.connections[0], &outcome.server.connections[0]);
    assert_eq!((ours.sent, ours.sent_hash), (theirs.received, theirs.received_hash));
    outcome
}

fn subflows_left(outcome: &Outcome) -> usize {
    outcome.client.connections[0].flow.as_ref().unwrap().subflows.len()
}

fn path() -> Quality {
    Quality::rate(30.0, Duration::from_millis(50))
}

#[test]
fn a_reset_closes_one_subflow_and_the_other_delivers() {
    if !may_run("a_reset_closes_one_subflow_and_the_other_delivers") {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, path());
    let outcome = kill_amid(&topology, How::Reset, |counters| counters["MPTcpExtMPRstTx"] > 0);
    assert_eq!(subflows_left(&outcome), 1);
}

#[test]
fn deleting_the_clients_endpoint_tells_the_server() {
    if !may_run("deleting_the_clients_endpoint_tells_the_server") {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, path());
    // Not the client's MPTcpExtRmAddrTx, which older kernels lack.
    let told = |_: &mib::Counters| mib::read(topology.server()).unwrap()["MPTcpExtRmAddr"] == 1;
    let outcome = kill_amid(&topology, How::EndpointDeleted, told);
    assert_eq!(subflows_left(&outcome), 1);
}

#[test]
fn the_server_removes_its_announced_address() {
    if !may_run("the_server_removes_its_announced_address") {
        return;
    }
    let topology = build(JoinBy::ServerSignal, path());
    let outcome = kill_amid(&topology, How::PeerRemovesAddress, |counters| counters["MPTcpExtRmAddr"] == 1);
    assert_eq!(subflows_left(&outcome), 1);
}

#[test]
fn a_link_that_goes_down_leaves_its_bytes_to_the_other_path() {
    if !may_run("a_link_that_goes_down_leaves_its_bytes_to_the_other_path") {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, path());
    kill_amid(&topology, How::LinkDown, |_| true);
    topology.path(1).unwrap().revive().unwrap();
}

#[test]
fn a_black_hole_leaves_its_bytes_to_the_other_path_and_can_end() {
    if !may_run("a_black_hole_leaves_its_bytes_to_the_other_path_and_can_end") {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, path().rtt(Duration::from_millis(4)));
    kill_amid(&topology, How::Blackhole, |counters| counters["MPTcpExtMPTCPRetrans"] > 0);
    topology.path(1).unwrap().revive().unwrap();
    let spec = topology.traffic(Workload::upload(BYTES)).unwrap();
    let outcome = mpwatch_lab::traffic::run(topology.client(), topology.server(), &spec).unwrap();
    assert_eq!(subflows_left(&outcome), 2);
}

#[test]
fn what_a_dead_path_holds_up_goes_with_its_lab() {
    if !may_run("what_a_dead_path_holds_up_goes_with_its_lab") {
        return;
    }
    let topology = build(JoinBy::ClientSubflow, path());
    kill_amid(&topology, How::LinkDown, |_| true);
    // Its processes are done, but it retransmits for minutes.
    let orphan = || {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        table.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some("04"))
    };
    poll_until("an orphan in FIN_WAIT1", PATIENCE, || topology.client().enter(orphan).unwrap().then_some(()))
        .unwrap();
    let outlives = std::fs::File::open(topology.client().path()).unwrap();
    drop(topology);
    let left = std::thread::spawn(move || {
        nix::sched::setns(outlives, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        orphan()
    });
    assert!(!left.join().unwrap());
}
