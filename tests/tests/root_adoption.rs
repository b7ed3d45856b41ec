// SPDX-License-Identifier: MIT OR Apache-2.0
//! mpwatch adopts each connection that is older than itself exactly once, also if other connections open or close meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::{LinkSpec, PathFailure};
use mpwatch_lab::traffic::{self, Control, IdleConnections, TrafficSpec, Transfer, Transport, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{Observer, Report, emulation, list, may_run_as_root, number, text};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(1);
/// Sockets of a connection: at both ends the MPTCP socket and two subflows.
const SOCKETS: u64 = 6;
/// Limit of short connections. The test stops before: mpwatch starts within seconds, also in an emulated guest.
const MAX_SHORT_CONNECTIONS: u32 = 100_000;
/// Number of short connections that are opened after mpwatch has started.
const LATER_CONNECTIONS: u32 = 500;
/// Number of short connections that are open at the same time.
const AT_ONCE: u32 = 40;
const SHORT_BYTES: u64 = 1_000;
/// Size of the ring buffer in bytes: 256 MiB.
const RING_SIZE: &str = "268435456";

#[test]
fn sockets_older_than_mpwatch_are_adopted_once_while_others_open_and_close() {
    adopt(emulation::amount(1_800).max(600));
}

#[test]
#[ignore = "takes some minutes and 3 GB: cargo test --test root_adoption -- --ignored"]
fn a_hundred_thousand_sockets_are_adopted_once_while_others_open_and_close() {
    adopt(100_000);
}

/// The SYN counts as a byte in the kernel's `bytes_acked`, also for a socket whose `connect` began before mpwatch started.
#[test]
fn a_connection_whose_syn_was_lost_before_mpwatch_started_has_the_bytes_of_the_application() {
    if !may_run_as_root() {
        return;
    }
    let delayed = LinkSpec::default().rtt(Duration::from_millis(4));
    let lab = Topology::two_paths(delayed, delayed).unwrap();
    lab.path(0).unwrap().fail(PathFailure::Blackhole).unwrap();
    let spec = lab.traffic(Workload::upload(SHORT_BYTES)).unwrap();
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &Arc::default()).unwrap();
    let is_connecting = || lab.client().enter(|| has_socket_in("02")).unwrap().then_some(());
    poll_until("a SYN", TIMEOUT, is_connecting).unwrap();

    let observer = Observer::start_complete(&[]);
    lab.path(0).unwrap().restore().unwrap();
    transfer.join().unwrap();
    let report = observer.finish_after_close(&lab);
    let connection = report.only_connection_in(lab.client().name());
    assert_eq!(connection["seen_open"], false);
    assert_eq!(number(connection, "bytes_sent"), SHORT_BYTES, "{connection:#}");
}

/// The link is down for a while, so this host refuses segments, and the payload follows from sequence numbers, which include SYN and FIN. The
/// connection has fallen back, so that closing it sends a FIN on its subflow.
#[test]
fn a_subflow_whose_fin_was_sent_before_mpwatch_started_has_the_bytes_of_the_application() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::disjoint(&[LinkSpec::default().rtt(Duration::from_millis(4))]).unwrap();
    let path = lab.path(0).unwrap();
    let workload = Workload::Paced { rate: 400_000, duration: Duration::from_secs(2) };
    let mut spec = lab.traffic(workload).unwrap();
    spec.server_transport = Some(Transport::Tcp);
    let control = Arc::new(Control::holding());
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    poll_until("data", TIMEOUT, || (control.received() > 10_000).then_some(())).unwrap();
    path.fail(PathFailure::LinkDown).unwrap();
    std::thread::sleep(Duration::from_millis(600));
    path.restore().unwrap();
    poll_until("all data to be acknowledged", TIMEOUT, || (control.held() == 1).then_some(())).unwrap();
    path.fail(PathFailure::Blackhole).unwrap();
    control.release();
    let is_closing = || lab.client().enter(|| has_socket_in("04")).unwrap().then_some(());
    poll_until("FIN_WAIT1", TIMEOUT, is_closing).unwrap();

    let observer = Observer::start_complete(&[]);
    std::thread::sleep(Duration::from_secs(2));
    let report = observer.finish();
    let subflow = &list(report.only_connection_in(lab.client().name()), "subflows")[0];
    assert!(number(subflow, "bytes_refused") > 0, "{subflow:#}");
    let payload = number(subflow, "bytes_sent") - number(subflow, "bytes_retransmitted");
    assert_eq!((text(subflow, "state"), payload), ("fin_wait1", control.sent()), "{subflow:#}");
    path.restore().unwrap();
    transfer.join().unwrap();
}

/// Whether this namespace has a socket in a state of the kernel's list.
fn has_socket_in(state: &str) -> bool {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    table.lines().any(|line| line.split_whitespace().nth(3) == Some(state))
}

fn adopt(sockets: u64) {
    if !may_run_as_root() {
        return;
    }
    let idle_count = u32::try_from(sockets / SOCKETS).unwrap();
    allow_files(2 * u64::from(idle_count) + 2_048);
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let server = lab.path(0).unwrap().server_address();
    let mut spec = TrafficSpec::new(server, Workload::upload(0));
    spec.connections = idle_count;
    let idle = IdleConnections::open(lab.client(), lab.server(), &spec).unwrap();
    let control = Arc::new(Control::default());
    let short = Transfer::start(lab.client(), lab.server(), &short_spec(&spec), &control).unwrap();
    poll_until("short connections", TIMEOUT, || (control.opened() > AT_ONCE).then_some(())).unwrap();

    // The final records of many connections that close within a second need a larger buffer than the default.
    let observer = Observer::start(&["--ring-size", RING_SIZE]);
    let opened_before = control.opened();
    let have_opened = || (control.opened() >= opened_before + LATER_CONNECTIONS).then_some(());
    poll_until("later connections", TIMEOUT, have_opened).unwrap();
    control.stop_opening();
    let outcome = short.join().unwrap();
    assert_eq!((outcome.client.first_error(), outcome.server.first_error()), (None, None));
    let opened = control.opened();
    drop(idle);
    let report = observer.finish_after_close(&lab);

    for loss in ["vanished", "records_lost", "decode_errors", "storage_failed", "namespaces_unreadable"] {
        assert_eq!(number(&report.json["losses"], loss), 0, "{}", report.json["losses"]);
    }
    for (netns, opens) in [(lab.client().name(), true), (lab.server().name(), false)] {
        let (idle, short) = recorded(&report, netns);
        let ends: HashSet<[&str; 2]> =
            idle.iter().map(|connection| ["local", "remote"].map(|end| text(connection, end))).collect();
        assert_eq!(ends.len(), idle.len(), "addresses of idle connections");
        assert_each_once(&idle);
        assert_each_once(&short);
        assert_eq!(idle.len(), idle_count as usize, "idle connections in {netns}");
        assert!(
            idle.iter()
                .all(|connection| connection["seen_open"] == false && !connection["closed_at"].is_null())
        );
        let adopted = short.iter().filter(|connection| connection["seen_open"] == false).count();
        let traced = short.len() - adopted;
        println!("{netns}: {} idle, {adopted} short ones adopted, {traced} traced", idle.len());
        assert!(adopted > 0, "no short connection was open when mpwatch started");
        let after = (opened - opened_before) as usize;
        assert!((after..=opened as usize).contains(&short.len()), "{} with {after} later", short.len());
        for connection in short {
            assert!(!connection["closed_at"].is_null(), "the connection has closed: {connection:#}");
            // Kernels before 6.5 do not count the bytes of a connection.
            let bytes = connection[if opens { "bytes_sent" } else { "bytes_received" }].as_u64();
            assert!(bytes.is_none_or(|bytes| bytes == SHORT_BYTES), "{connection:#}");
        }
    }
}

/// Connections that send a little and close after a random time, on a different port than the idle connections.
fn short_spec(idle: &TrafficSpec) -> TrafficSpec {
    let (min_lifetime, max_lifetime) = (Duration::from_millis(20), Duration::from_millis(200));
    let workload = Workload::Churn { bytes: SHORT_BYTES, min_lifetime, max_lifetime };
    let mut spec = TrafficSpec::new(idle.server.ip(), workload);
    spec.server.set_port(traffic::PORT + 1_000);
    (spec.connections, spec.concurrency, spec.read_socket_info) = (MAX_SHORT_CONNECTIONS, AT_ONCE, false);
    spec.timeout = Duration::from_mins(10);
    spec
}

/// The idle and the short connections in a namespace.
fn recorded<'a>(report: &'a Report, netns: &str) -> (Vec<&'a Value>, Vec<&'a Value>) {
    let short_port = format!(":{}", traffic::PORT + 1_000);
    let has_port = |flow: &Value| {
        ["local", "remote"].iter().filter_map(|end| flow[end].as_str()).any(|end| end.ends_with(&short_port))
    };
    // A connection has no addresses if mpwatch found only a later subflow, because the initial one had closed.
    let is_short =
        |connection: &&Value| has_port(connection) || list(connection, "subflows").iter().any(has_port);
    let (short, idle) = list(&report.json, "connections")
        .iter()
        .filter(|connection| connection["netns"] == netns)
        .partition::<Vec<&Value>, _>(is_short);
    (idle, short)
}

/// Asserts that ids are unique. Short connections may reuse a port.
fn assert_each_once(connections: &[&Value]) {
    let mut by_id: HashMap<&str, &Value> = HashMap::new();
    for connection in connections {
        if let Some(other) = by_id.insert(text(connection, "id"), connection) {
            panic!("two connections have the same id: {other:#}\n{connection:#}");
        }
    }
}

fn allow_files(count: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count.min(hard)), hard).unwrap();
}
