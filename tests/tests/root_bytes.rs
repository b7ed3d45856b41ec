// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every byte counter against three independent sources: the application, MPTCP_FULL_INFO, and the interfaces.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::net::SocketAddr;
use std::time::Duration;

use mpwatch_lab::topology::{Family, PathSpec, Quality, TopologySpec};
use mpwatch_lab::traffic::{self, ConnectionReport, Spec, Workload};
use mpwatch_lab::{SubflowInfo, Topology};
use mpwatch_tests::{Observer, list, may_run_as_root, number, pace, text};
use serde_json::Value;

const GIB: u64 = 1 << 30;

#[test]
fn a_gibibyte_over_two_paths_is_counted_to_the_byte_with_ipv4() {
    transfer(Family::V4, pace::amount(GIB));
}

#[test]
fn a_gibibyte_over_two_paths_is_counted_to_the_byte_with_ipv6() {
    transfer(Family::V6, pace::amount(GIB));
}

fn transfer(family: Family, bytes: u64) {
    if !may_run_as_root() {
        return;
    }
    let path = |mbit| PathSpec {
        quality: Quality::rate(mbit, Duration::from_millis(20)),
        family,
        ..PathSpec::default()
    };
    let topology =
        Topology::build(&TopologySpec { paths: vec![path(900.0), path(600.0)], ..TopologySpec::default() })
            .unwrap();
    let observer = Observer::start(&[]);
    let before = counters(&topology);
    let mut spec = Spec::new(topology.path(0).unwrap().server_address(), Workload::upload(bytes));
    spec.deadline = Duration::from_mins(2);
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_when_quiet(&topology);

    let (sender, receiver) = (&outcome.client.connections[0], &outcome.server.connections[0]);
    assert_eq!(
        (sender.sent, receiver.received),
        (bytes, bytes),
        "the application itself: {sender:?} {receiver:?}"
    );
    assert_eq!(sender.sent_hash, receiver.received_hash);
    let client = report.only_connection_in(topology.client().name());
    let server = report.only_connection_in(topology.server().name());
    connection_agrees(client, sender);
    connection_agrees(server, receiver);
    assert_eq!(number(client, "bytes_sent"), bytes);
    assert_eq!(number(server, "bytes_received"), bytes);
    assert_eq!(text(client, "token"), text(server, "remote_token"));
    assert_eq!(text(server, "token"), text(client, "remote_token"));
    assert_eq!(number(&report.json["losses"], "records_lost"), 0);

    let wire: u64 =
        list(client, "subflows").iter().map(|subflow| number(subflow, "wire_bytes_sent_estimate")).sum();
    let truth = counters(&topology) - before;
    let error = wire as f64 / truth as f64 - 1.0;
    println!("wire estimate {wire}, interfaces {truth}: {:+.3} %", error * 100.0);
    assert!(error.abs() <= 0.02, "the wire estimate is {:.2} % off", error * 100.0);
}

/// The kernel's own account, taken by the application before it closed: the end of the connection adds no payload.
fn connection_agrees(ours: &Value, theirs: &ConnectionReport) {
    let flow = theirs.flow.as_ref().expect("the application asked the kernel");
    let mptcp = flow.mptcp.as_ref().expect("MPTCP_FULL_INFO");
    // Kernels before 6.5 count no bytes of a connection: there the application's count is what there is to compare with.
    let sent = mptcp.bytes_sent.unwrap_or(theirs.sent);
    assert_eq!(number(ours, "bytes_sent"), sent);
    assert_eq!(number(ours, "bytes_received"), mptcp.bytes_received.unwrap_or(theirs.received));
    assert_eq!(ours["mptcp_bytes_retransmitted"].as_u64(), mptcp.bytes_retrans);
    // DATA_FIN counts as a byte that is acknowledged.
    let acked = number(ours, "bytes_acked");
    assert!(
        acked - mptcp.bytes_acked.unwrap_or(sent) <= 1,
        "acknowledged {acked}, MPTCP_FULL_INFO {mptcp:?}"
    );
    assert_eq!(text(ours, "token"), format!("{:08x}", mptcp.token));

    let subflows = list(ours, "subflows");
    assert_eq!(subflows.len(), flow.subflows.len());
    for subflow in subflows {
        let address = |end| text(subflow, end).parse::<SocketAddr>().unwrap();
        let ends = (address("local"), address("remote"));
        let info = flow.subflows.iter().find(|info| (info.local, info.remote) == ends);
        subflow_agrees(subflow, info.unwrap_or_else(|| panic!("{ends:?} is not in {flow:?}")));
    }
    let unique: u64 = flow.subflows.iter().map(|info| info.tcp.bytes_sent - info.tcp.bytes_retrans).sum();
    assert_eq!(number(ours, "bytes_reinjected"), unique - sent);
}

/// After the account was taken, closing adds one FIN in each direction (kernel.md A5: a byte each). A socket whose own FIN was
/// acknowledged long before the peer's comes is a TIME_WAIT socket by then, which counts nothing.
fn subflow_agrees(ours: &Value, info: &SubflowInfo) {
    assert_eq!(number(ours, "bytes_sent"), info.tcp.bytes_sent);
    assert_eq!(number(ours, "bytes_retransmitted"), info.tcp.bytes_retrans);
    let fin_received = number(ours, "bytes_received") - info.tcp.bytes_received;
    assert!(fin_received <= 1, "received after the account was taken: {fin_received}");
    assert_eq!(number(ours, "bytes_acked"), info.tcp.bytes_acked + 1, "one FIN acknowledged");
    assert_eq!(number(ours, "segments_retransmitted"), u64::from(info.tcp.total_retrans));
}

fn counters(topology: &Topology) -> u64 {
    topology.paths().map(|path| path.client_counters().unwrap().tx_bytes).sum()
}
