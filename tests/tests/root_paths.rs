// SPDX-License-Identifier: MIT OR Apache-2.0
//! Negotiation between the ends: backup paths, announced addresses, and whether the connection uses MPTCP.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod observed;

use std::time::Duration;

use jiff::Timestamp;
use mpwatch_lab::topology::{JoinBy, LinkSpec, PathFailure};
use mpwatch_lab::traffic::{Control, Transport, Workload, run_client, run_server};
use mpwatch_lab::{Topology, join, mib, poll_until};
use mpwatch_tests::{Observer, Report, list, may_run_as_root, number, text};
use observed::{
    ObservedTransfer, TIMEOUT, has_listener, lab, on_path, reason, show, timeline_entries, wait_until,
};
use serde_json::Value;

const BYTES: u64 = 1_000_000;

#[test]
fn a_backup_is_not_used_while_the_primary_works() {
    if !may_run_as_root() {
        return;
    }
    let run = ObservedTransfer::with_ledger(lab(JoinBy::ClientSubflow, true), 4_000_000);
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    for connection in [result.client(), result.server()] {
        let (primary, backup) = (on_path(connection, 1), on_path(connection, 2));
        assert_eq!((&primary["backup"], &backup["backup"]), (&Value::from(false), &Value::from(true)));
        assert_eq!(number(backup, "bytes_sent"), 0, "{}", show(connection));
        assert!(timeline_entries(connection, "priority_changed").is_empty(), "{}", show(connection));
    }
    let (primary, backup) = (picks(result.client(), 1), picks(result.client(), 2));
    println!("(considered, picked): primary {primary:?}, backup {backup:?}");
    assert!(backup.0 > 10, "the scheduler also considers a backup");
    assert_eq!(backup.1, 0, "a backup is never picked");
    assert!(primary.1 > 100);
}

#[test]
fn a_backup_takes_over_when_the_primary_fails() {
    if !may_run_as_root() {
        return;
    }
    let run = ObservedTransfer::with_ledger(lab(JoinBy::ClientSubflow, true), 6_000_000);
    run.wait_for_bytes(2_000_000);
    run.lab.path(0).unwrap().fail(PathFailure::LinkDown).unwrap();
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    let backup = on_path(result.client(), 2);
    assert!(
        number(backup, "bytes_sent") > 3_000_000 && picks(result.client(), 2).1 > 10,
        "{}",
        show(result.client())
    );
    assert_eq!((reason(on_path(result.client(), 1)), reason(backup)), ("unreachable", "fin"));
    assert!(!timeline_entries(result.client(), "stalled").is_empty(), "{}", show(result.client()));
}

/// The kernel marks a subflow stale only when another subflow is full, so a path that fails below that load has no mark.
#[test]
fn a_dead_path_is_found_at_any_load() {
    if !may_run_as_root() {
        return;
    }
    std::thread::scope(|scope| {
        for rate in [300_000, 5_000_000, 20_000_000] {
            scope.spawn(move || find_dead_path(rate));
        }
    });
}

/// Sends at this rate in bit/s, lets the path with more bytes fail, and checks that the failure is found.
fn find_dead_path(rate: u64) {
    let lab = lab(JoinBy::ClientSubflow, false);
    // Linux 6.18 never delivers the missing data if the data after it fills the receive buffer.
    lab.server().sysctl("net.ipv4.tcp_rmem", "4096 6291456 6291456").unwrap();
    let spec = lab.traffic(Workload::Paced { rate, duration: Duration::from_secs(14) }).unwrap();
    let run = ObservedTransfer::with_spec(lab, &spec, &[]);
    run.wait_for_bytes(rate / 8);
    let acked = |number: u8| {
        let prefix = format!("10.{number}.");
        let sockets = observed::sockets(run.lab.client());
        let mut on_path =
            sockets.into_iter().filter(|((local, _), _)| local.to_string().starts_with(&prefix));
        on_path.next().map(|(_, counters)| counters).unwrap_or_default()
    };
    let carried = |number| acked(number).get("bytes_acked").copied().unwrap_or(0);
    let number = if carried(1) >= carried(2) { 1 } else { 2 };
    run.lab.path(usize::from(number) - 1).unwrap().fail(PathFailure::Blackhole).unwrap();
    wait_until("three retransmission timeouts in a row", || {
        let counters = acked(number);
        counters.contains_key("unacked") && counters.get("backoff").is_some_and(|backoff| *backoff >= 3)
    });
    let missed = Timestamp::now();
    run.wait_for_completion();
    let result = run.finish();
    let failed = timeline_entries(result.client(), "subflow_stale");
    let first = failed.first().unwrap_or_else(|| panic!("{rate} bit/s: {}", show(result.client())));
    assert_eq!(first["subflow"], on_path(result.client(), number)["id"], "{rate} bit/s");
    let noticed: Timestamp = text(first, "at").parse().unwrap();
    let late = noticed.duration_since(missed).as_secs_f64();
    println!("{rate} bit/s: noticed {late:.1} s after the third timeout");
    assert!(late < 3.0, "{rate} bit/s: noticed after {late} s");
    assert_eq!(failed.len(), 1, "nothing was acknowledged on the path: {}", show(result.client()));
}

/// Up to 1 MB is in flight in the queues, which the receiver cannot count. The paths have the same delay: over a faster path,
/// acknowledgements of the connection would reach the sender before acknowledgements of the slower subflow.
#[test]
fn both_ends_agree_when_a_second_path_carried_a_tenth() {
    if !may_run_as_root() {
        return;
    }
    let link = |mbit| LinkSpec::rate(mbit, Duration::from_millis(150)).rtt(Duration::from_millis(20));
    let run = ObservedTransfer::start(Topology::two_paths(link(40.0), link(20.0)).unwrap(), 8_000_000);
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    let [sender, receiver] = [result.client(), result.server()]
        .map(|connection| number(&connection["second_path"], "effective_after_bytes") as f64);
    println!("10 % after {sender} bytes at the sender, {receiver} at the receiver");
    assert!((0.67..1.5).contains(&(sender / receiver)), "sender {sender}, receiver {receiver}");
}

#[test]
fn both_ends_report_a_change_of_priority() {
    if !may_run_as_root() {
        return;
    }
    let run = ObservedTransfer::start(lab(JoinBy::ClientSubflow, false), 10_000_000);
    run.wait_for_bytes(1_000_000);
    run.lab.path(1).unwrap().set_backup(true).unwrap();
    run.wait_for_bytes(6_000_000);
    run.lab.path(1).unwrap().set_backup(false).unwrap();
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    // An option on an acknowledgement that is lost is not retransmitted, so only the options that arrived change the server's state.
    let received = mib::read(result.lab.server()).unwrap().get("MPTcpExtMPPrioRx").copied().unwrap_or(0);
    for connection in [result.client(), result.server()] {
        let changes: Vec<_> = timeline_entries(connection, "priority_changed");
        let id = &on_path(connection, 2)["id"];
        assert!(changes.iter().all(|change| change["source"] == "sampled" && change["subflow"] == *id));
        let backup: Vec<&Value> = changes.iter().map(|change| &change["backup"]).collect();
        // Only the first of two options changes the state of a server that receives one.
        let is_partial = connection == result.server() && received < 2;
        assert!(
            backup == [true, false] || is_partial && (backup.is_empty() || received == 1 && backup == [true]),
            "{received} MP_PRIO received; {}",
            show(connection)
        );
    }
}

#[test]
fn both_ends_report_announced_and_removed_addresses() {
    if !may_run_as_root() {
        return;
    }
    let run = ObservedTransfer::start(lab(JoinBy::ServerSignal, false), 8_000_000);
    run.wait_for_bytes(4_000_000);
    run.lab.path(1).unwrap().fail(PathFailure::PeerRemovesAddress).unwrap();
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    let announced = timeline_entries(result.client(), "peer_address_announced");
    assert_eq!(announced.len(), 1, "{}", show(result.client()));
    assert_eq!(number(announced[0], "address_id"), 2);
    assert!(text(announced[0], "address").starts_with("10.2.2.2:"), "{}", announced[0]);
    let removed = timeline_entries(result.client(), "peer_address_removed");
    assert_eq!((removed.len(), number(removed[0], "address_id")), (1, 2), "{}", show(result.client()));
    let by_server = timeline_entries(result.server(), "address_announced");
    assert_eq!((by_server.len(), number(by_server[0], "total")), (1, 1), "{}", show(result.server()));
}

#[test]
fn a_server_without_mptcp_makes_the_client_fall_back() {
    for enabled in [true, false] {
        // With MPTCP disabled, MPTCP sockets cannot be created: the listener is plain TCP in both cases.
        let Some((lab, report)) = mixed(Transport::Mptcp, Transport::Tcp, enabled) else { return };
        let client = report.only_connection_in(lab.client().name());
        let why = format!("MPTCP enabled at the server: {enabled}\n{}", show(client));
        assert_eq!(text(&client["fallback"], "reason"), "no_mp_capable_in_syn_ack", "{why}");
        assert_eq!((text(client, "protocol"), number(client, "bytes_sent")), ("mptcp", BYTES), "{why}");
        assert_eq!(timeline_entries(client, "fell_back").len(), 1, "{why}");
        assert_eq!(reason(&list(client, "subflows")[0]), "fin", "{why}");
        assert_plain(report.only_connection_in(lab.server().name()), "server", "bytes_received");
    }
}

#[test]
fn a_plain_tcp_client_is_plain_tcp_also_with_an_mptcp_listener() {
    let Some((lab, report)) = mixed(Transport::Tcp, Transport::Mptcp, true) else { return };
    assert_plain(report.only_connection_in(lab.client().name()), "client", "bytes_sent");
    assert_plain(report.only_connection_in(lab.server().name()), "server", "bytes_received");
}

/// Asserts plain TCP with the application's bytes.
#[track_caller]
fn assert_plain(connection: &Value, role: &str, bytes: &str) {
    assert_eq!((text(connection, "protocol"), text(connection, "role")), ("tcp", role), "{connection:#}");
    assert!(connection["token"].is_null() && connection["fallback"].is_null(), "{connection:#}");
    assert_eq!(number(connection, bytes), BYTES, "{connection:#}");
    assert_eq!(reason(&list(connection, "subflows")[0]), "fin", "{connection:#}");
}

/// An upload between ends with different transports, recorded with `--tcp`.
fn mixed(client: Transport, server: Transport, enabled: bool) -> Option<(Topology, Report)> {
    if !may_run_as_root() {
        return None;
    }
    let lab = Topology::disjoint(&[LinkSpec::default()]).unwrap();
    lab.server().sysctl("net.mptcp.enabled", if enabled { "1" } else { "0" }).unwrap();
    let mut spec = lab.traffic(Workload::upload(BYTES)).unwrap();
    spec.transport = server;
    let observer = Observer::start(&["--tcp"]);
    let serving = lab.server().spawn("server", {
        let spec = spec.clone();
        move || run_server(&spec, &Control::default())
    });
    poll_until("the server to listen", TIMEOUT, || has_listener(lab.server()).then_some(())).unwrap();
    spec.transport = client;
    let sent = lab.client().enter(|| run_client(&spec, &Control::default())).unwrap().unwrap();
    let received = join(serving.unwrap()).unwrap();
    assert_eq!((sent.first_error(), received.received()), (None, BYTES));
    Some((lab, observer.finish()))
}

fn picks(connection: &Value, path: u8) -> (u64, u64) {
    let scheduler = &on_path(connection, path)["scheduler"];
    (number(scheduler, "considered"), number(scheduler, "picked"))
}
