// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round-trip times and retransmissions on paths with known delay and loss.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, ConnectionReport, TrafficSpec, Workload};
use mpwatch_lab::{Topology, mib};
use mpwatch_tests::{Observer, Report, list, may_run_as_root, number, text};
use serde_json::Value;

const RTT: Duration = Duration::from_millis(20);
const CONNECTIONS: usize = 5;

#[test]
fn smoothed_and_median_rtt_match_the_path() {
    if !may_run_as_root() {
        return;
    }
    let topology = Topology::two_paths(LinkSpec::default().rtt(RTT), LinkSpec::default().rtt(RTT)).unwrap();
    // The first packets wait for neighbour discovery, which would count as handshake time.
    warm_up(&topology);
    let observer = Observer::start(&[]);
    // The rate is below the capacity of the paths, so that no queue adds to the delay. There are several connections, because on a busy
    // machine the relay may be late during one of them, and this delay is real.
    let workload = Workload::Paced { rate: 20_000_000, duration: Duration::from_millis(600) };
    let spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), workload);
    for _ in 0..CONNECTIONS {
        traffic::run(topology.client(), topology.server(), &spec).unwrap();
    }
    let report = observer.finish_after_close(&topology);
    let sent = subflows_of(&report, topology.client().name());
    let received = subflows_of(&report, topology.server().name());
    for initial in [true, false] {
        for field in ["srtt_us", "rtt_p50_us", "rtt_min_us", "handshake_us"] {
            assert_near_rtt(&sent, initial, field);
        }
        assert_near_rtt(&received, initial, "handshake_us");
    }
    for subflow in sent {
        assert!(number(subflow, "rtt_p99_us") >= number(subflow, "rtt_p50_us"));
        assert!(number(subflow, "rtt_samples") > 10, "{subflow:#}");
    }
}

#[test]
fn retransmissions_match_the_kernel_and_each_has_a_cause() {
    if !may_run_as_root() {
        return;
    }
    let lossy = |seed| LinkSpec::rate(50.0, Duration::from_millis(50)).rtt(RTT).loss(0.01, seed);
    let topology = Topology::two_paths(lossy(7), lossy(11)).unwrap();
    let observer = Observer::start(&[]);
    let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), Workload::upload(8_000_000));
    spec.congestion = Some("cubic".to_owned());
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_after_close(&topology);
    let connection = report.only_connection_in(topology.client().name());
    let mut total = 0;
    for subflow in list(connection, "subflows") {
        let retransmitted = number(subflow, "segments_retransmitted");
        total += retransmitted;
        // The application read the kernel's counter just before the close. Later only the end of the stream can be lost.
        let read = kernel_total_retrans(&outcome.client.connections[0], text(subflow, "local"));
        assert!((read..=read + 3).contains(&retransmitted), "{retransmitted}, the application read {read}");
        let causes = &subflow["retransmits"];
        let with_cause: u64 = ["fast", "timeout", "probe"].iter().map(|cause| number(causes, cause)).sum();
        assert_eq!(with_cause, retransmitted, "every retransmission has a cause: {causes}");
    }
    // The sums are equal, because nothing else sends in this namespace.
    assert_eq!(total, mib::read(topology.client()).unwrap()["TcpRetransSegs"]);
    assert!(total > 20, "1 % of 8 MB is about 56 segments, not {total}");
}

fn warm_up(topology: &Topology) {
    let spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), Workload::upload(1_000_000));
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
}

/// All subflows in a namespace, two per connection.
fn subflows_of<'a>(report: &'a Report, namespace: &str) -> Vec<&'a Value> {
    let connections = report.connections_in(namespace);
    assert_eq!(connections.len(), CONNECTIONS);
    let subflows: Vec<_> =
        connections.into_iter().flat_map(|connection| list(connection, "subflows")).collect();
    assert_eq!(subflows.len(), 2 * CONNECTIONS, "{subflows:#?}");
    subflows
}

/// Asserts that no time is less than the path's RTT, and that the median is within a tenth of it.
#[track_caller]
fn assert_near_rtt(subflows: &[&Value], initial: bool, field: &str) {
    let of_this_path = subflows.iter().filter(|subflow| subflow["initial"] == initial);
    let mut times: Vec<u64> = of_this_path.map(|subflow| number(subflow, field)).collect();
    times.sort_unstable();
    let rtt = RTT.as_micros() as f64;
    println!("{field}, initial {initial}: {times:?}");
    let error = times[times.len() / 2] as f64 / rtt - 1.0;
    assert!(error.abs() <= 0.10, "{field} differs by {:.1} % from {RTT:?}: {subflows:#?}", error * 100.0);
    assert!(times[0] as f64 >= rtt * 0.95, "{field} is less than the path's {RTT:?}: {subflows:#?}");
}

fn kernel_total_retrans(connection: &ConnectionReport, local: &str) -> u64 {
    let info = connection.socket_info.as_ref().expect("MPTCP_FULL_INFO");
    let subflow =
        info.subflows.iter().find(|subflow| subflow.local.to_string() == local).expect("the subflow");
    subflow.tcp.total_retrans.into()
}
