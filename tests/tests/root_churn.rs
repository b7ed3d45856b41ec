// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many short connections: all of them are recorded, also with ring buffers that are far too small for their final records.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::{Tracer, TracerSettings};
use mpwatch_lab::link::{self, QueueCounters, RateLimit};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, Close, TrafficSpec, TransferOutcome, Transport, Workload};
use mpwatch_lab::{Topology, mib};
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::kernel::event::KernelEvent;
use mpwatch_tests::{Observer, Report, emulation, list, may_run_as_root, number, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const BYTES: u64 = 1_000;

/// The number of connections: 1 000, on an emulated machine at least 100.
fn connection_count() -> u32 {
    u32::try_from(emulation::amount(1_000).max(100)).unwrap()
}

#[test]
fn a_thousand_short_connections_are_recorded_with_open_close_and_final_counters() {
    if !may_run_as_root() {
        return;
    }
    let (topology, before) = lab();
    let observer = Observer::start(&[]);
    let outcome = churn(&topology, connection_count());
    let report = observer.finish_after_close(&topology);

    let after = mib::difference(&before, &mib::read(topology.client()).unwrap());
    let clients = report.connections_in(topology.client().name());
    println!("{}", report.json["losses"]);
    assert_eq!(
        clients.len() as u64,
        after["MPTcpExtMPCapableSYNTX"],
        "connections against the kernel's counter"
    );
    let joined = clients.iter().flat_map(|c| list(c, "subflows")).filter(|s| s["initial"] == false).count();
    // Kernels before 6.13 do not count the joins of a client.
    if let Some(&requested) = after.get("MPTcpExtMPJoinSynTx") {
        assert_eq!(joined as u64, requested, "joins against the kernel's counter");
    }
    println!("{} connections, {joined} joined subflows", clients.len());
    assert!(
        joined > connection_count() as usize / 2,
        "most connections last long enough for a join: {joined} joins"
    );
    assert_complete(&report, &topology, &outcome);
    let losses = &report.json["losses"];
    for loss in ["records_lost", "vanished", "decode_errors", "storage_failed"] {
        assert_eq!(number(losses, loss), 0, "{losses}");
    }
}

#[test]
fn final_records_that_do_not_fit_a_tiny_ring_use_the_overflow_ring() {
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let observer = Observer::start(&["--ring-size", "4K"]);
    let outcome = churn(&topology, connection_count());
    let report = observer.finish_after_close(&topology);
    let losses = &report.json["losses"];
    println!("{losses}");
    assert_complete(&report, &topology, &outcome);
    assert!(number(losses, "ring_full_recovered") > 0, "4 KiB are enough for only three records: {losses}");
    assert_eq!((number(losses, "records_lost"), number(losses, "vanished")), (0, 0), "{losses}");
}

#[test]
fn lost_records_are_counted_exactly_and_host_totals_stay_right() {
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let observer = Observer::start(&["--ring-size", "4K", "--overflow-size", "4K"]);
    let outcome = churn(&topology, 4 * connection_count());
    let report = observer.finish_after_close(&topology);
    let losses = &report.json["losses"];
    println!("{losses}");
    let lost = number(losses, "records_lost");
    let (sent, received) =
        (&report.json["counters"]["records"], &report.json["counters"]["records_received"]);
    assert_eq!(sent.as_u64().unwrap() - received.as_u64().unwrap(), lost, "{sent} sent, {received} received");

    assert_each_byte_is_counted_once(&report, &topology, outcome.client.sent());
}

/// The kernel counts a segment as sent each time that the queue refuses it.
#[test]
fn segments_refused_by_a_queue_are_not_in_the_payload_of_lost_records() {
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let interface = topology.path(0).unwrap().client_interface();
    // The limit is on the sender's own interface, as if `tc` had set it on a host.
    link::limit_rate(topology.client(), interface, RateLimit::mbit(20.0, Duration::from_millis(1))).unwrap();
    let observer = Observer::start(&["--tcp", "--ring-size", "4K", "--overflow-size", "4K"]);
    let workload = Workload::upload(emulation::amount(400_000));
    let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), workload);
    (spec.transport, spec.read_socket_info) = (Transport::Tcp, false);
    let upload =
        |spec: &TrafficSpec| traffic::run(topology.client(), topology.server(), spec).unwrap().client.sent();
    let recorded = upload(&spec);
    // While the recorder is stopped, no program reads the rings.
    let pid = Pid::from_raw(observer.pid().cast_signed());
    kill(pid, Signal::SIGSTOP).unwrap();
    (spec.connections, spec.concurrency) = (24, 8);
    let lost = upload(&spec);
    kill(pid, Signal::SIGCONT).unwrap();
    let report = observer.finish_after_close(&topology);
    println!("{}", report.json["losses"]);
    let queue = QueueCounters::read(topology.client(), interface).unwrap();
    assert!(queue.drops > 0, "the queue refused nothing");
    assert_each_byte_is_counted_once(&report, &topology, recorded + lost);
}

/// Asserts that each byte of the clients is either in the records of a connection or counted as lost, at both ends.
fn assert_each_byte_is_counted_once(report: &Report, topology: &Topology, sent: u64) {
    let (client, server) = (topology.client().name(), topology.server().name());
    let losses = &report.json["losses"];
    assert!(number(losses, "records_lost") > 0, "two rings of 4 KiB are too small: {losses}");
    // Losses are counted for the whole machine.
    let is_ours = |c: &Value| [client, server].contains(&text(c, "netns"));
    let is_alone = list(&report.json, "connections").iter().all(is_ours);
    let ends = [(client, "bytes_sent", "lost_bytes_sent"), (server, "bytes_received", "lost_bytes_received")];
    for (end, field, loss) in ends {
        let connections = report.connections_in(end);
        let reported: u64 = connections.iter().filter_map(|c| c[field].as_u64()).sum();
        let lost = number(losses, loss);
        println!("{field}: {reported} in records, {lost} lost, {sent} carried; alone: {is_alone}");
        assert!(reported + lost >= sent, "{field}: {reported} + {lost} for {sent}");
        assert!(!is_alone || reported + lost == sent, "{field}: {reported} + {lost} for {sent}");
    }
}

/// With 100 000 idle subflows, a tick may take so long that the rings would fill up meanwhile.
#[test]
fn records_that_arrive_during_a_long_tick_are_not_lost() {
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let (ring_bytes, overflow_bytes) = (128 << 10, 128 << 10);
    let settings =
        TracerSettings { ring_bytes, overflow_bytes, ledger: LedgerMode::Off, ..TracerSettings::default() };
    let mut tracer = Tracer::start(settings).unwrap();
    let netns =
        topology.client().enter(|| std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino()).unwrap();
    tracer.snapshot(&mut |_| ()).unwrap();
    // As if the tick lasted until the next call of `poll`.
    churn(&topology, connection_count());
    let expected = connection_count() as usize;
    let (mut closed, begin) = (HashSet::new(), Instant::now());
    while closed.len() < expected && begin.elapsed() < emulation::timeout(Duration::from_secs(10)) {
        let each = &mut |event: &KernelEvent| match event {
            KernelEvent::Connection(record) if record.last && u64::from(record.netns_inode) == netns => {
                closed.insert(record.msk.cookie);
            }
            _ => {}
        };
        tracer.poll(Duration::from_millis(50), each).unwrap();
    }
    let (_, losses) = tracer.counters().unwrap();
    assert_eq!((closed.len(), losses.records_lost), (expected, 0));

    // The program at `tcp_probe` takes 4 µs for the about 20 segments of a connection. The budget counts all programs, so its time is much
    // longer.
    let per_connection = tracer.time_of_programs().unwrap().0 / u64::from(connection_count());
    assert!(per_connection > 20_000, "{per_connection} ns for both ends");
}

/// The kernel releases the token before it closes a connection that the peer aborts (MP_FASTCLOSE).
#[test]
fn aborted_connections_keep_their_tokens_at_both_ends() {
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let observer = Observer::start(&[]);
    let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), Workload::upload(BYTES));
    (spec.connections, spec.concurrency, spec.close) = (50, 1, Close::Abort);
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_after_close(&topology);
    let tokens = |namespace: &str, field: &str| -> HashSet<String> {
        report.connections_in(namespace).iter().map(|connection| text(connection, field).to_owned()).collect()
    };
    let (client, server) = (topology.client().name(), topology.server().name());
    assert_eq!(tokens(client, "token").len(), 50);
    assert_eq!(tokens(client, "token"), tokens(server, "remote_token"));
    assert_eq!(tokens(server, "token"), tokens(client, "remote_token"));
}

/// Linux 7.2 may crash if the iterator over socket storage meets the storage of a socket that the kernel is destroying.
#[test]
fn snapshots_survive_sockets_that_are_destroyed_meanwhile() {
    const CONNECTIONS: u32 = 500;
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let observer = Observer::start_every("100ms", &["--ledger", "off", "--no-bottlenecks"]);
    churn(&topology, CONNECTIONS);
    let report = observer.finish_after_close(&topology);
    for end in [topology.client(), topology.server()] {
        assert_eq!(report.connections_in(end.name()).len(), CONNECTIONS as usize);
    }
}

fn lab() -> (Topology, BTreeMap<String, u64>) {
    let topology = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let before = mib::read(topology.client()).unwrap();
    (topology, before)
}

fn churn(topology: &Topology, connections: u32) -> TransferOutcome {
    let workload = Workload::Churn {
        bytes: BYTES,
        min_lifetime: Duration::from_millis(1),
        max_lifetime: Duration::from_millis(500),
    };
    let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), workload);
    (spec.connections, spec.concurrency) = (connections, 64);
    spec.read_socket_info = false;
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    assert_eq!(outcome.client.first_error(), None);
    assert_eq!(outcome.client.sent(), u64::from(connections) * BYTES);
    outcome
}

/// Asserts that every connection of both ends is reported once, with its opening, its close, and the application's bytes.
fn assert_complete(report: &Report, topology: &Topology, outcome: &TransferOutcome) {
    let expected = outcome.client.connections.len();
    for (namespace, field) in [(topology.client(), "bytes_sent"), (topology.server(), "bytes_received")] {
        let connections = report.connections_in(namespace.name());
        assert_eq!(connections.len(), expected, "in {}", namespace.name());
        let ids: HashSet<&str> = connections.iter().map(|connection| text(connection, "id")).collect();
        assert_eq!(ids.len(), expected, "ids are unique");
        for connection in connections {
            assert_eq!(number(connection, field), BYTES, "{connection:#}");
            assert_eq!(connection["seen_open"], true, "{connection:#}");
            assert!(connection["closed_at"].is_string(), "{connection:#}");
            for subflow in list(connection, "subflows") {
                assert!(subflow["created_at"].is_string() && subflow["closed"].is_object(), "{subflow:#}");
            }
        }
    }
    let connections = list(&report.json, "connections");
    let subflows: usize = connections.iter().map(|connection| list(connection, "subflows").len()).sum();
    let records = usize::try_from(number(&report.json["counters"], "records")).unwrap();
    // Other records are paths of control groups. Connections of other tests may still be open.
    assert!(
        records < connections.len() + subflows + 10,
        "{records} records of {} sockets",
        connections.len() + subflows
    );
}
