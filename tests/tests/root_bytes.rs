// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares every byte counter with three independent sources: the application, MPTCP_FULL_INFO, and the interface counters.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::{Family, LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{ConnectionReport, Control, TrafficSpec, Transfer, Workload};
use mpwatch_lab::{SubflowInfo, Topology, poll_until};
use mpwatch_tests::{Observer, emulation, established, list, may_run_as_root, number, text};
use serde_json::Value;

/// Payload in bytes: 128 MiB.
const BYTES: u64 = 1 << 27;
const TIMEOUT: Duration = Duration::from_mins(2);

#[test]
fn bytes_over_two_ipv4_paths_are_counted_exactly() {
    transfer(Family::V4, emulation::amount(BYTES));
}

#[test]
fn bytes_over_two_ipv6_paths_are_counted_exactly() {
    transfer(Family::V6, emulation::amount(BYTES));
}

fn transfer(family: Family, bytes: u64) {
    if !may_run_as_root() {
        return;
    }
    let path = |mbit| PathSpec {
        link: LinkSpec::rate(mbit, Duration::from_millis(20)),
        family,
        ..PathSpec::default()
    };
    let topology =
        Topology::build(&TopologySpec { paths: vec![path(900.0), path(600.0)], ..TopologySpec::default() })
            .unwrap();
    let observer = Observer::start(&[]);
    let before = sent_on_interfaces(&topology);
    let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), Workload::upload(bytes));
    spec.timeout = TIMEOUT;
    let control = Arc::new(Control::holding());
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    // On a slow machine the transfer may end before the second subflow joins. Then the application would read one subflow, and mpwatch would
    // report two.
    let has_joined = || {
        let ends = [topology.client(), topology.server()];
        (control.held() == 1 && ends.into_iter().all(|end| established(end) == 2)).then_some(())
    };
    poll_until("the end of the transfer, with both subflows", TIMEOUT, has_joined).unwrap();
    control.release();
    let outcome = transfer.join().unwrap();
    let report = observer.finish_after_close(&topology);

    let (sender, receiver) = (&outcome.client.connections[0], &outcome.server.connections[0]);
    assert_eq!(
        (sender.sent, receiver.received),
        (bytes, bytes),
        "byte counts of the application: {sender:?} {receiver:?}"
    );
    assert_eq!(sender.sent_hash, receiver.received_hash);
    let client = report.only_connection_in(topology.client().name());
    let server = report.only_connection_in(topology.server().name());
    assert_connection_equal(client, sender);
    assert_connection_equal(server, receiver);
    assert_eq!(number(client, "bytes_sent"), bytes);
    assert_eq!(number(server, "bytes_received"), bytes);
    assert_eq!(text(client, "token"), text(server, "remote_token"));
    assert_eq!(text(server, "token"), text(client, "remote_token"));
    assert_eq!(number(&report.json["losses"], "records_lost"), 0);

    let estimate: u64 =
        list(client, "subflows").iter().map(|subflow| number(subflow, "wire_bytes_sent_estimate")).sum();
    let measured = sent_on_interfaces(&topology) - before;
    let error = estimate as f64 / measured as f64 - 1.0;
    println!("wire estimate {estimate}, interfaces {measured}: {:+.3} %", error * 100.0);
    assert!(error.abs() <= 0.02, "the wire estimate is wrong by {:.2} %", error * 100.0);
}

/// Compares mpwatch's values with the kernel's information, which the application read just before the close. The close adds no payload.
fn assert_connection_equal(ours: &Value, theirs: &ConnectionReport) {
    let info = theirs.socket_info.as_ref().expect("the application read the information");
    let mptcp = info.mptcp.as_ref().expect("MPTCP_FULL_INFO");
    // Kernels before 6.5 have no byte counters of connections: compare with the application's.
    let sent = mptcp.bytes_sent.unwrap_or(theirs.sent);
    assert_eq!(number(ours, "bytes_sent"), sent);
    assert_eq!(number(ours, "bytes_received"), mptcp.bytes_received.unwrap_or(theirs.received));
    assert_eq!(ours["mptcp_bytes_retransmitted"].as_u64(), mptcp.bytes_retrans);
    // The DATA_FIN counts as one acknowledged byte.
    let acked = number(ours, "bytes_acked");
    assert!(
        acked - mptcp.bytes_acked.unwrap_or(sent) <= 1,
        "acknowledged {acked}, MPTCP_FULL_INFO {mptcp:?}"
    );
    assert_eq!(text(ours, "token"), format!("{:08x}", mptcp.token));

    let subflows = list(ours, "subflows");
    assert_eq!(subflows.len(), info.subflows.len());
    for subflow in subflows {
        let address = |field| text(subflow, field).parse::<SocketAddr>().unwrap();
        let addresses = (address("local"), address("remote"));
        let same = info.subflows.iter().find(|subflow| (subflow.local, subflow.remote) == addresses);
        assert_subflow_equal(subflow, same.unwrap_or_else(|| panic!("{addresses:?} is not in {info:?}")));
    }
    let unique = |subflow: &Value| number(subflow, "bytes_sent") - number(subflow, "bytes_retransmitted");
    assert_eq!(number(ours, "bytes_reinjected"), subflows.iter().map(unique).sum::<u64>() - sent);
}

/// The close after the read adds one FIN in each direction, which counts as one byte. If the peer's FIN arrives after the socket has
/// become a TIME_WAIT socket, the kernel does not count this byte.
fn assert_subflow_equal(ours: &Value, info: &SubflowInfo) {
    assert_sent_equal(ours, info);
    let fin_received = number(ours, "bytes_received") - info.tcp.bytes_received;
    assert!(fin_received <= 1, "received after the read: {fin_received}");
    assert_eq!(number(ours, "bytes_acked"), info.tcp.bytes_acked + 1, "one FIN acknowledged");
    assert_eq!(number(ours, "segments_retransmitted"), u64::from(info.tcp.total_retrans));
}

/// The kernel also counts segments that a queue of this host refused, new ones and retransmissions.
fn assert_sent_equal(ours: &Value, info: &SubflowInfo) {
    let (refused, again) = (number(ours, "bytes_refused"), number(ours, "bytes_retransmitted"));
    assert_eq!(number(ours, "bytes_sent") + refused, info.tcp.bytes_sent);
    assert!(
        (again..=again + refused).contains(&info.tcp.bytes_retrans),
        "{} {ours:#}",
        info.tcp.bytes_retrans
    );
}

fn sent_on_interfaces(topology: &Topology) -> u64 {
    topology.paths().map(|path| path.client_counters().unwrap().tx_bytes).sum()
}
