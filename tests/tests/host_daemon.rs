// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service with real traffic: what it serves is what the application counted, and it outlives bad files, slow readers and SIGKILL.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
mod service;

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;

use mpwatch_lab::poll_until;
use mpwatch_tests::{Held, list, may_run_as_root, number, text};
use nix::sys::signal::Signal;
use serde_json::Value;

use service::{PATIENCE, Place};

const BYTES: u64 = 500_000;

/// The client's end, as the daemon tells it.
fn seen_at(place: &Place, held: &Held) -> Value {
    let found = poll_until("the daemon to see it", PATIENCE, || {
        let listed = place.attached(&["ls", "--json"]);
        assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""));
        let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
        let ours = |one: &&Value| one["netns"] == held.client() && one["bytes_sent"].as_u64() == Some(BYTES);
        list(&snapshot, "connections").iter().find(ours).cloned()
    });
    found.unwrap()
}

fn sent_by(connection: &Value) -> String {
    format!("mpwatch_connection_sent_bytes_total{{connection=\"{}\"}}", text(connection, "id"))
}

fn is_all(value: f64) -> bool {
    value.to_bits() == (BYTES as f64).to_bits()
}

#[test]
fn what_is_served_is_what_the_application_counted() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let daemon = place.start(&["--metrics.top-flows", "400"]);
    for path in ["/", "/healthz", "/readyz"] {
        assert_eq!(daemon.get(path).0, "HTTP/1.1 200 OK", "{path}");
    }
    let before = daemon.metric("mpwatch_host_sent_bytes_total").unwrap();
    let held = Held::upload(BYTES);
    let connection = seen_at(&place, &held);
    daemon.until(&sent_by(&connection), is_all);
    let after = daemon.metric("mpwatch_host_sent_bytes_total").unwrap();
    assert!(after - before >= BYTES as f64, "the host sent {before} and then {after}");
    let subflows: f64 = list(&connection, "subflows").iter().map(|s| number(s, "bytes_sent") as f64).sum();
    assert!(subflows >= BYTES as f64);

    let shown = place.attached(&["show", text(&connection, "id"), "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["bytes_sent"], connection["bytes_sent"]);
    let batch = place.attached(&["top", "--batch", "--json", "-n", "3"]);
    assert_eq!((batch.code, batch.stdout.lines().count()), (Some(0), 3), "{}", batch.stderr);

    // The finals stay for a while, the sums for good.
    let closed = daemon.metric("mpwatch_host_connections_closed_total{role=\"client\"}").unwrap();
    drop(held);
    daemon.until("mpwatch_host_connections_closed_total{role=\"client\"}", |now| now > closed);
    assert!(is_all(daemon.metric(&sent_by(&connection)).unwrap()));
    assert!(daemon.metric("mpwatch_host_sent_bytes_total").unwrap() >= after);
}

#[test]
fn a_bad_file_changes_nothing_and_a_good_one_does() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let daemon = place.start(&[]);
    let held = Held::upload(BYTES);
    let series = sent_by(&seen_at(&place, &held));
    let ok = "mpwatch_agent_config_last_reload_successful";
    assert_eq!((daemon.metric(&series), daemon.metric(ok)), (None, Some(1.0)));
    place.configure("[metrics]\ntop_flow = 5\n");
    daemon.signal(Signal::SIGHUP);
    daemon.until(ok, |value| value < 0.5);
    let error = daemon.logged("the configuration is unchanged");
    assert!(text(&error, "error").contains("did you mean `metrics.top_flows`?"), "{error}");
    place.configure("[metrics]\ntop_flows = 400\n");
    daemon.signal(Signal::SIGHUP);
    daemon.until(ok, |value| value > 0.5);
    poll_until("series of single flows", PATIENCE, || daemon.metric(&series)).unwrap();
    place.configure("interval = \"2s\"\n");
    daemon.signal(Signal::SIGHUP);
    daemon.logged("configuration reloaded");
    assert_eq!(daemon.get("/readyz").0, "HTTP/1.1 200 OK");
}

#[test]
fn sigterm_hands_out_the_last_snapshot_and_leaves_nothing() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let mut daemon = place.start(&[]);
    place.until_told("WATCHDOG=1", 0);
    let mut reader = BufReader::new(UnixStream::connect(place.socket()).unwrap()).lines();
    let greeting: Value = serde_json::from_str(&reader.next().unwrap().unwrap()).unwrap();
    assert_eq!(number(&greeting, "proto"), 1);
    daemon.signal(Signal::SIGTERM);
    let lines: Vec<String> = reader.map(Result::unwrap).collect();
    assert!(lines.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(!lines.is_empty());
    assert_eq!(daemon.ended().code(), Some(0));
    assert!(!place.socket().exists());
    place.until_told("STOPPING=1", 0);
}

#[test]
fn a_reader_that_does_not_read_holds_up_nobody() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let daemon = place.start(&[]);
    let _held = Held::upload(BYTES);
    let stuck = UnixStream::connect(place.socket()).unwrap();
    daemon.until("mpwatch_agent_socket_frames_dropped_total", |dropped| dropped > 2.0);
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.until("mpwatch_agent_ticks_total", |now| now > ticks + 3.0);
    assert_eq!(place.attached(&["ls"]).code, Some(0));
    drop(stuck);
    daemon.until("mpwatch_agent_socket_readers", |readers| readers < 0.5);
}

#[test]
fn after_sigkill_another_daemon_takes_over_and_knows_the_connections_again() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let mut first = place.start(&[]);
    let held = Held::upload(BYTES);
    let before = seen_at(&place, &held);
    first.signal(Signal::SIGKILL);
    first.ended();
    assert!(place.socket().exists(), "nobody could remove it");
    let gone = place.attached(&["ls"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("no daemon answers"), "{}", gone.stderr);
    let second = place.start(&["--metrics.top-flows", "400"]);
    let after = seen_at(&place, &held);
    assert_eq!((&after["id"], after["seen_open"].as_bool()), (&before["id"], Some(false)));
    // What the first one has counted is not counted again.
    assert_eq!(second.until(&sent_by(&after), |_| true).to_bits(), 0_f64.to_bits());
}

#[test]
fn two_daemons_do_not_share_a_socket() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let _first = place.start(&[]);
    let second = place.attached(&["daemon", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains("another daemon listens there"), "{}", second.stderr);
    assert_eq!(place.attached(&["ls"]).code, Some(0), "the first one goes on");
}
