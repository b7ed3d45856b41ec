// SPDX-License-Identifier: MIT OR Apache-2.0
//! Namespaces and connections that exist before mpwatch starts, or appear later.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, Control, TrafficSpec, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{Observer, emulation, list, may_run_as_root, mpwatch, number, text};
use serde_json::Value;

#[test]
fn identical_four_tuples_in_two_namespaces_are_two_connections() {
    if !may_run_as_root() {
        return;
    }
    // Every topology uses the same addresses; the same client port makes the 4-tuples equal.
    let labs = [two_paths(), two_paths()];
    let observer = Observer::start(&[]);
    for lab in &labs {
        lab.client().sysctl("net.ipv4.ip_local_port_range", "40001 40002").unwrap();
        traffic::run(lab.client(), lab.server(), &spec(lab, Workload::upload(100_000))).unwrap();
    }
    let report = observer.finish();
    let [first, second] = [&labs[0], &labs[1]].map(|lab| report.only_connection_in(lab.client().name()));
    assert_eq!(text(first, "remote"), text(second, "remote"));
    assert_ne!(text(first, "id"), text(second, "id"));
    for connection in [first, second] {
        assert_eq!(number(connection, "bytes_sent"), 100_000);
    }
}

#[test]
fn an_open_connection_is_listed_within_two_seconds_with_exact_totals() {
    if !may_run_as_root() {
        return;
    }
    let lab = two_paths();
    let control = Arc::new(Control::holding());
    let transfer =
        Transfer::start(lab.client(), lab.server(), &spec(&lab, Workload::upload(3_000_000)), &control)
            .unwrap();
    poll_until("the end of the transfer", Duration::from_secs(20), || (control.held() == 1).then_some(()))
        .unwrap();

    let started = Instant::now();
    let listed = mpwatch(&["ls", "--json"]);
    let took = started.elapsed();
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(took < emulation::timeout(Duration::from_secs(2)), "ls took {took:?}");
    let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
    for (namespace, sent, received) in [(lab.client(), 3_000_000, 0), (lab.server(), 0, 3_000_000)] {
        let here: Vec<&Value> =
            list(&snapshot, "connections").iter().filter(|c| c["netns"] == namespace.name()).collect();
        let [connection] = here[..] else { panic!("expected one connection: {here:#?}") };
        assert_eq!(
            (number(connection, "bytes_sent"), number(connection, "bytes_received")),
            (sent, received)
        );
        assert_eq!(connection["seen_open"], false);
        assert!(connection["opened_at"].is_null() && connection["second_path"].is_null());
        assert_eq!(number(&connection["process"], "pid"), u64::from(std::process::id()));
        let subflows = list(connection, "subflows");
        assert_eq!(subflows.len(), 2);
        for subflow in subflows {
            assert!(subflow["created_at"].is_null() && subflow["handshake_us"].is_null(), "{subflow:#}");
        }
    }

    let observer = Observer::start(&[]);
    control.release();
    let outcome = transfer.join().unwrap();
    let report = observer.finish_after_close(&lab);
    let connection = report.only_connection_in(lab.client().name());
    assert_eq!(number(connection, "bytes_sent"), outcome.client.sent());
    assert!(connection["closed_at"].is_string(), "the close was recorded: {connection:#}");
    let events: Vec<&str> = list(connection, "timeline").iter().map(|entry| text(entry, "event")).collect();
    assert_eq!(events.first(), Some(&"adopted"), "{events:?}");
}

#[test]
fn ids_are_stable_across_a_restart_of_mpwatch() {
    if !may_run_as_root() {
        return;
    }
    let lab = two_paths();
    let control = Arc::new(Control::holding());
    let first = Observer::start(&[]);
    let transfer =
        Transfer::start(lab.client(), lab.server(), &spec(&lab, Workload::upload(10_000)), &control).unwrap();
    poll_until("the end of the transfer", Duration::from_secs(20), || (control.held() == 1).then_some(()))
        .unwrap();
    let before = first.finish();
    let second = Observer::start(&[]);
    control.release();
    transfer.join().unwrap();
    let after = second.finish_after_close(&lab);
    for namespace in [lab.client(), lab.server()] {
        let [old, new] = [&before, &after].map(|report| report.only_connection_in(namespace.name()));
        assert_eq!(text(old, "id"), text(new, "id"));
        let ids = |connection| -> Vec<String> {
            let mut ids: Vec<String> =
                list(connection, "subflows").iter().map(|subflow| text(subflow, "id").to_owned()).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(old), ids(new));
    }
}

#[test]
fn a_namespace_that_appears_later_is_found_and_named() {
    if !may_run_as_root() {
        return;
    }
    let observer = Observer::start(&[]);
    let lab = two_paths();
    // The upload is longer than a tick, because mpwatch finds the owner of an accepted socket in the open files once per tick, or when the
    // socket is closed.
    let workload = Workload::upload_for(Duration::from_millis(500));
    let outcome = traffic::run(lab.client(), lab.server(), &spec(&lab, workload)).unwrap();
    let report = observer.finish();
    assert_eq!(outcome.client.first_error(), None);
    for namespace in [lab.client(), lab.server()] {
        let connection = report.only_connection_in(namespace.name());
        assert_eq!(connection["seen_open"], true);
        assert_eq!(
            number(&connection["process"], "pid"),
            u64::from(std::process::id()),
            "owner of {connection:#}"
        );
    }
}

fn two_paths() -> Topology {
    Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap()
}

fn spec(lab: &Topology, workload: Workload) -> TrafficSpec {
    TrafficSpec::new(lab.path(0).unwrap().server_address(), workload)
}
