// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root tests of the traffic generator: requests, churn, paced senders, aborts, and connections that are held before they close.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, Close, Control, TrafficSpec, Transfer, TransferOutcome, Workload};
use mpwatch_lab::{Topology, mib, poll_until};
use mpwatch_testkit::may_run_as_root;
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

fn two_plain_paths() -> Topology {
    Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap()
}

fn spec(topology: &Topology, workload: Workload) -> TrafficSpec {
    topology.traffic(workload).unwrap()
}

fn run(topology: &Topology, spec: &TrafficSpec) -> TransferOutcome {
    traffic::run(topology.client(), topology.server(), spec).unwrap()
}

#[test]
fn requests_are_answered_one_by_one() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_plain_paths();
    let workload = Workload::Requests {
        count: 200,
        request_bytes: 64,
        response_bytes: 1000,
        think_time: Duration::from_micros(200),
    };
    let outcome = run(&topology, &spec(&topology, workload));
    assert_eq!(outcome.client.first_error(), None);
    assert_eq!((outcome.client.exchanges(), outcome.server.exchanges()), (200, 200));
    assert_eq!((outcome.client.sent(), outcome.client.received()), (200 * 64, 200_000));
    let (ours, theirs) = (&outcome.client.connections[0], &outcome.server.connections[0]);
    assert_eq!(ours.received_hash, theirs.sent_hash);
}

#[test]
fn churn_opens_and_closes_every_connection() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_plain_paths();
    let mut spec = spec(
        &topology,
        Workload::Churn {
            bytes: 500,
            min_lifetime: Duration::from_millis(1),
            max_lifetime: Duration::from_millis(30),
        },
    );
    spec.connections = 500;
    spec.concurrency = 20;
    spec.read_socket_info = false;
    let outcome = run(&topology, &spec);
    assert_eq!(outcome.client.first_error(), None);
    assert_eq!(outcome.client.connections.len(), 500);
    assert_eq!(outcome.server.connections.len(), 500);
    assert_eq!(outcome.server.received(), 500 * 500);
    let counters = mib::read(topology.server()).unwrap();
    assert_eq!(counters["MPTcpExtMPCapableACKRX"], 500);
    println!(
        "churn: 500 connections in {:?}, {} joins",
        outcome.client.elapsed, counters["MPTcpExtMPJoinAckRx"]
    );
    assert!(counters["MPTcpExtMPJoinAckRx"] > 250);
}

#[test]
fn many_short_flows_arrive_completely() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_plain_paths();
    let mut spec = topology.traffic(Workload::upload(10_000)).unwrap();
    spec.connections = 300;
    spec.concurrency = 4;
    let outcome = run(&topology, &spec);
    assert_eq!(outcome.client.first_error(), None);
    assert_eq!(outcome.server.received(), 300 * 10_000);
    println!("short flows: 300 of 10 KB in {:?}", outcome.client.elapsed);
}

#[test]
fn a_paced_sender_stays_at_its_rate() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_plain_paths();
    let workload = Workload::Paced { rate: 8_000_000, duration: Duration::from_secs(1) };
    let sent = run(&topology, &spec(&topology, workload)).client.sent();
    assert!((900_000..=1_000_000).contains(&sent), "{sent}");
}

#[test]
fn an_aborted_connection_is_reset_at_the_server() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_plain_paths();
    let mut spec = topology.traffic(Workload::upload(100_000)).unwrap();
    spec.close = Close::Abort;
    let outcome = run(&topology, &spec);
    assert_eq!(outcome.client.first_error(), None);
    assert!(outcome.server.connections[0].reset);
    // The client sends an `MP_FASTCLOSE` on each subflow.
    assert!(mib::read(topology.client()).unwrap()["MPTcpExtMPFastcloseTx"] > 0);
}

#[test]
fn a_held_connection_stays_open_and_idle_until_its_release() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_plain_paths();
    let spec = topology.traffic(Workload::upload(1_000_000)).unwrap();
    let control = Arc::new(Control::holding());
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    poll_until("the connection at the gate", TIMEOUT, || (control.held() == 1).then_some(())).unwrap();
    assert_eq!(control.sent(), 1_000_000);
    // The client is at the gate when it has sent all bytes; the server may still be reading.
    poll_until("all bytes at the server", TIMEOUT, || (control.received() == 1_000_000).then_some(()))
        .unwrap();
    // `None`: older kernels do not have this counter.
    let open = || mib::read(topology.client()).unwrap().get("MPTcpExtMPCurrEstab").copied();
    assert_ne!(open(), Some(0));
    control.release();
    let outcome = transfer.join().unwrap();
    assert_eq!(outcome.client.first_error(), None);
    assert!(open().is_none_or(|count| count == 0));
}

#[test]
fn a_specification_survives_json() {
    let workload =
        Workload::Requests { count: 1, request_bytes: 1, response_bytes: 1, think_time: Duration::ZERO };
    let spec = TrafficSpec::new("10.1.2.2".parse().unwrap(), workload);
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<TrafficSpec>(&text).unwrap(), spec);
}
