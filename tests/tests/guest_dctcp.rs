// SPDX-License-Identifier: MIT OR Apache-2.0
//! DCTCP over links that mark packets, as in the study `mptcpd`. Runs in the guests, whose kernels have DCTCP and RED.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::time::Duration;

use mpwatch_lab::link::Discipline;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{self, Workload};
use mpwatch_lab::{Topology, mib};
use mpwatch_tests::{Observer, list, number, skip, text};

const BYTES: u64 = 4_000_000;

fn has_dctcp() -> bool {
    let controls = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    nix::unistd::geteuid().is_root() && controls.split_whitespace().any(|name| name == "dctcp")
}

#[test]
fn dctcp_answers_to_marks_and_loses_nothing() {
    if !has_dctcp() {
        return skip("this test needs root and a kernel with DCTCP; `./dev vm` has both");
    }
    let mut link = LinkSpec::rate(10.0, Duration::from_millis(100)).rtt(Duration::from_millis(20));
    link.forward = link.forward.map(|limit| limit.with_discipline(Discipline::Marking));
    let path = PathSpec { link, ..PathSpec::default() };
    let spec = TopologySpec { paths: vec![path, path], ..TopologySpec::default() };
    let topology = Topology::build(&spec).unwrap();
    let observer = Observer::start(&[]);
    let mut traffic = topology.traffic(Workload::upload(BYTES)).unwrap();
    traffic.congestion = Some("dctcp".to_owned());
    let outcome = traffic::run(topology.client(), topology.server(), &traffic).unwrap();
    let report = observer.finish_after_close(&topology);

    assert_eq!(outcome.server.received(), BYTES);
    let received = mib::read(topology.server()).unwrap();
    let [marked, capable, others] =
        ["InCEPkts", "InECT0Pkts", "InNoECTPkts"].map(|name| received[&format!("IpExt{name}")]);
    assert!(marked > 0, "of {capable} packets with ECN none was marked; {others} packets had no ECN");
    let connection = report.only_connection_in(topology.client().name());
    let subflows = list(connection, "subflows");
    assert_eq!(subflows.len(), 2);
    for subflow in subflows {
        assert_eq!(text(subflow, "congestion_control"), "dctcp");
        // Cubic fills the queue until it drops packets.
        assert_eq!(number(subflow, "bytes_retransmitted"), 0, "{marked} packets were marked");
    }
}
