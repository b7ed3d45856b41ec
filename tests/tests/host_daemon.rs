// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon with real traffic: it serves the application's byte counts, and handles invalid configuration, slow readers and SIGKILL.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
mod service;

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{OpenConnection, list, may_run_as_root, number, text};
use nix::sys::signal::Signal;
use serde_json::Value;

use service::{Daemon, DaemonDir, TIMEOUT};

const BYTES: u64 = 500_000;

/// Waits until the daemon lists the client's end with all its bytes, and returns it.
fn listed_connection(daemon_dir: &DaemonDir, open: &OpenConnection) -> Value {
    let found = poll_until("the connection in the list", TIMEOUT, || {
        let listed = daemon_dir.run_attached(&["ls", "--json"]);
        assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""));
        let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
        let is_client = |connection: &&Value| {
            connection["netns"] == open.client() && connection["bytes_sent"].as_u64() == Some(BYTES)
        };
        list(&snapshot, "connections").iter().find(is_client).cloned()
    });
    found.unwrap()
}

fn sent_bytes_series(connection: &Value) -> String {
    format!("mpwatch_connection_sent_bytes_total{{connection=\"{}\"}}", text(connection, "id"))
}

fn is_total(value: f64) -> bool {
    value.to_bits() == (BYTES as f64).to_bits()
}

#[test]
fn the_daemon_serves_the_byte_counts_of_the_application() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&["--metrics.top-flows", "400"]);
    for path in ["/", "/healthz", "/readyz"] {
        assert_eq!(daemon.get(path).0, "HTTP/1.1 200 OK", "{path}");
    }
    assert_eq!(daemon.get("/api/v1/flows").0, "HTTP/1.1 403 Forbidden", "no authentication is configured");
    let before = daemon.metric("mpwatch_host_sent_bytes_total").unwrap();
    let open = OpenConnection::after_upload(BYTES);
    let connection = listed_connection(&daemon_dir, &open);
    daemon.wait_for_metric(&sent_bytes_series(&connection), is_total);
    let after = daemon.metric("mpwatch_host_sent_bytes_total").unwrap();
    assert!(after - before >= BYTES as f64, "host total {before}, then {after}");
    let subflows: f64 = list(&connection, "subflows").iter().map(|s| number(s, "bytes_sent") as f64).sum();
    assert!(subflows >= BYTES as f64);

    let shown = daemon_dir.run_attached(&["show", text(&connection, "id"), "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["bytes_sent"], connection["bytes_sent"]);
    let batch = daemon_dir.run_attached(&["top", "--batch", "--json", "-n", "3"]);
    assert_eq!((batch.code, batch.stdout.lines().count()), (Some(0), 3), "{}", batch.stderr);

    // The final counters are exported for a while, the totals permanently.
    let closed = daemon.metric("mpwatch_host_connections_closed_total{role=\"client\"}").unwrap();
    drop(open);
    daemon.wait_for_metric("mpwatch_host_connections_closed_total{role=\"client\"}", |now| now > closed);
    assert!(is_total(daemon.metric(&sent_bytes_series(&connection)).unwrap()));
    assert!(daemon.metric("mpwatch_host_sent_bytes_total").unwrap() >= after);
}

#[test]
fn a_reload_ignores_an_invalid_file_and_applies_a_valid_one() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&[]);
    let open = OpenConnection::after_upload(BYTES);
    let series = sent_bytes_series(&listed_connection(&daemon_dir, &open));
    let ok = "mpwatch_agent_config_last_reload_successful";
    assert_eq!((daemon.metric(&series), daemon.metric(ok)), (None, Some(1.0)));
    daemon_dir.configure("[metrics]\ntop_flow = 5\n");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for_metric(ok, |value| value < 0.5);
    let error = daemon.wait_for_log("the configuration is unchanged");
    assert!(text(&error, "error").contains("did you mean `metrics.top_flows`?"), "{error}");
    daemon_dir.configure("[metrics]\ntop_flows = 400\n");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for_metric(ok, |value| value > 0.5);
    poll_until("series of single connections", TIMEOUT, || daemon.metric(&series)).unwrap();
    daemon_dir.configure("interval = \"2s\"\n");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for_log("configuration reloaded");
    assert_eq!(daemon.get("/readyz").0, "HTTP/1.1 200 OK");
}

#[test]
fn after_sigterm_the_daemon_sends_a_last_snapshot_and_removes_its_socket() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let mut daemon = daemon_dir.start(&[]);
    daemon_dir.wait_for_notification("WATCHDOG=1", 0);
    let mut reader = BufReader::new(UnixStream::connect(daemon_dir.socket()).unwrap()).lines();
    let greeting: Value = serde_json::from_str(&reader.next().unwrap().unwrap()).unwrap();
    assert_eq!(number(&greeting, "proto"), 1);
    daemon.signal(Signal::SIGTERM);
    let lines: Vec<String> = reader.map(Result::unwrap).collect();
    assert!(lines.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(!lines.is_empty());
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
    assert!(!daemon_dir.socket().exists());
    daemon_dir.wait_for_notification("STOPPING=1", 0);
}

#[test]
fn a_client_that_does_not_read_delays_no_other() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&[]);
    let _open = OpenConnection::after_upload(BYTES);
    let stalled = UnixStream::connect(daemon_dir.socket()).unwrap();
    daemon.wait_for_metric("mpwatch_agent_socket_frames_dropped_total", |dropped| dropped > 2.0);
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |now| now > ticks + 3.0);
    assert_eq!(daemon_dir.run_attached(&["ls"]).code, Some(0));
    drop(stalled);
    daemon.wait_for_metric("mpwatch_agent_socket_readers", |readers| readers < 0.5);
}

#[test]
fn after_sigkill_a_new_daemon_lists_the_same_connections() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let mut first = daemon_dir.start(&[]);
    let open = OpenConnection::after_upload(BYTES);
    let before = listed_connection(&daemon_dir, &open);
    first.signal(Signal::SIGKILL);
    first.wait_for_exit();
    assert!(daemon_dir.socket().exists(), "a killed daemon cannot remove its socket");
    let output = daemon_dir.run_attached(&["ls"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("no daemon answers"), "{}", output.stderr);
    let second = daemon_dir.start(&["--metrics.top-flows", "400"]);
    let after = listed_connection(&daemon_dir, &open);
    assert_eq!((&after["id"], after["seen_open"].as_bool()), (&before["id"], Some(false)));
    // Bytes that the first daemon counted are not counted again.
    assert_eq!(second.wait_for_metric(&sent_bytes_series(&after), |_| true).to_bits(), 0_f64.to_bits());
}

#[test]
fn two_daemons_do_not_share_a_socket() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let _first = daemon_dir.start(&[]);
    let second = daemon_dir.run_attached(&["daemon", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains("another daemon listens there"), "{}", second.stderr);
    assert_eq!(daemon_dir.run_attached(&["ls"]).code, Some(0), "the first daemon still runs");
}

/// Sets the limit of descriptors of a running daemon.
fn limit_descriptors(daemon: &Daemon, limit: &str) {
    let (pid, limit) = (daemon.pid().to_string(), format!("--nofile={limit}"));
    let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
    assert!(status.success(), "prlimit {limit}");
}

#[test]
fn ticks_without_a_free_descriptor_are_counted_and_later_ones_proceed() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let mut daemon = daemon_dir.start(&[]);
    let failed = "mpwatch_loss_ticks_failed_total";
    assert_eq!(daemon.metric(failed), Some(0.0));
    // The first 16 descriptors are in use, so no other one can be opened, and each iterator of a snapshot needs one.
    limit_descriptors(&daemon, "16:1024");
    let skipped = daemon.wait_for_log("a snapshot was skipped; the next one is read as usual");
    assert!(text(&skipped, "error").contains("Too many open files"), "{skipped}");
    let open = OpenConnection::after_upload(BYTES);
    limit_descriptors(&daemon, "1024:1024");
    daemon.wait_for_log("snapshots are read again");
    daemon.wait_for_metric(failed, |count| count >= 1.0);
    assert_eq!(number(&listed_connection(&daemon_dir, &open), "bytes_sent"), BYTES);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
}

#[test]
fn a_daemon_that_was_stopped_for_seconds_has_every_connection_of_that_time() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&[]);
    let closed = "mpwatch_host_connections_closed_total{role=\"client\"}";
    let open = OpenConnection::after_upload(BYTES);
    listed_connection(&daemon_dir, &open);
    let before = daemon.metric(closed).unwrap_or_default();
    let stopped = Instant::now();
    daemon.signal(Signal::SIGSTOP);
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload(1_000));
    (spec.connections, spec.concurrency, spec.read_socket_info) = (400, 8, false);
    assert_eq!(traffic::run(lab.client(), lab.server(), &spec).unwrap().client.first_error(), None);
    // The daemon is stopped for longer than a snapshot may be late. There is no condition to wait for.
    std::thread::sleep(Duration::from_secs(3).saturating_sub(stopped.elapsed()));
    daemon.signal(Signal::SIGCONT);
    daemon.wait_for_metric(closed, |count| count - before >= 400.0);
    let is_ready = || (daemon.get("/readyz").0 == "HTTP/1.1 200 OK").then_some(());
    poll_until("the daemon to be ready", TIMEOUT, is_ready).unwrap();
    for loss in ["records", "vanished", "decode_errors", "ticks_failed"] {
        assert_eq!(daemon.metric(&format!("mpwatch_loss_{loss}_total")), Some(0.0), "{loss}");
    }
    assert_eq!(number(&listed_connection(&daemon_dir, &open), "bytes_sent"), BYTES, "still open");
}
