// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round-trip times and retransmissions on paths of known delay and loss.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::time::Duration;

use mpwatch_lab::Topology;
use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{self, ConnectionReport, Spec, Workload};
use mpwatch_tests::{Observer, list, may_run_as_root, number, text};
use serde_json::Value;

const RTT: Duration = Duration::from_millis(20);

#[test]
fn smoothed_and_median_rtt_are_those_of_the_path() {
    if !may_run_as_root() {
        return;
    }
    let topology = Topology::two_paths(Quality::default().rtt(RTT), Quality::default().rtt(RTT)).unwrap();
    // The first packets wait for the addresses of their neighbours, which would count as handshake time.
    warm_up(&topology);
    let observer = Observer::start(&[]);
    // Paced below what the paths carry: no queue adds to the delay.
    let workload = Workload::Paced { rate: 20_000_000, duration: Duration::from_secs(3) };
    let spec = Spec::new(topology.path(0).unwrap().server_address(), workload);
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_when_quiet(&topology);
    let connection = report.only_connection_in(topology.client().name());
    let subflows = list(connection, "subflows");
    assert_eq!(subflows.len(), 2);
    for subflow in subflows {
        for field in ["srtt_us", "rtt_p50_us", "rtt_min_us", "handshake_us"] {
            near(subflow, field, RTT, 0.10);
        }
        assert!(number(subflow, "rtt_p99_us") >= number(subflow, "rtt_p50_us"));
        assert!(number(subflow, "rtt_samples") > 10, "{subflow:#}");
    }
    let server = report.only_connection_in(topology.server().name());
    for subflow in list(server, "subflows") {
        near(subflow, "handshake_us", RTT, 0.10);
    }
}

#[test]
fn retransmissions_are_the_kernels_own_and_each_has_a_cause() {
    if !may_run_as_root() {
        return;
    }
    let lossy = |seed| Quality::rate(50.0, Duration::from_millis(50)).rtt(RTT).loss(0.01, seed);
    let topology = Topology::two_paths(lossy(7), lossy(11)).unwrap();
    let observer = Observer::start(&[]);
    let mut spec = Spec::new(topology.path(0).unwrap().server_address(), Workload::upload(20_000_000));
    spec.congestion = Some("cubic".to_owned());
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_when_quiet(&topology);
    let connection = report.only_connection_in(topology.client().name());
    let mut total = 0;
    for subflow in list(connection, "subflows") {
        let retransmitted = number(subflow, "segments_retransmitted");
        total += retransmitted;
        assert_eq!(
            retransmitted,
            kernel_total_retrans(&outcome.client.connections[0], text(subflow, "local"))
        );
        let causes = &subflow["retransmits"];
        let told: u64 = ["fast", "timeout", "probe"].iter().map(|cause| number(causes, cause)).sum();
        assert_eq!(told, retransmitted, "every segment sent again has a cause: {causes}");
    }
    assert!(total > 50, "1 % of 20 MB is about 140 segments, not {total}");
}

fn warm_up(topology: &Topology) {
    let spec = Spec::new(topology.path(0).unwrap().server_address(), Workload::upload(1_000_000));
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
}

#[track_caller]
fn near(value: &Value, field: &str, expected: Duration, tolerance: f64) {
    let error = number(value, field) as f64 / expected.as_micros() as f64 - 1.0;
    println!("{field}: {:+.2} %", error * 100.0);
    assert!(error.abs() <= tolerance, "{field} of {value:#} is {:.1} % off {expected:?}", error * 100.0);
}

fn kernel_total_retrans(connection: &ConnectionReport, local: &str) -> u64 {
    let flow = connection.flow.as_ref().expect("MPTCP_FULL_INFO");
    let info = flow.subflows.iter().find(|info| info.local.to_string() == local).expect("the subflow");
    info.tcp.total_retrans.into()
}
