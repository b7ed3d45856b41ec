// SPDX-License-Identifier: MIT OR Apache-2.0
//! How subflows end: each way to kill one has its own reason at each end, nothing of its counters is lost, the connection lives
//! on, and the gap that it left is told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod ends;

use std::net::SocketAddr;
use std::time::Duration;

use ends::{Ended, Run, all_on_path, events, lab, on_path, reason, show, told, until};
use mpwatch_lab::endpoint::{self, Endpoint, Purpose};
use mpwatch_lab::topology::{How, JoinBy};
use mpwatch_lab::traffic::{Close, ConnectionReport, Control, Spec, Workload, run_client};
use mpwatch_lab::{Enforcer, Impairer};
use mpwatch_tests::{Observer, list, may_run_as_root, number, pace, text};
use serde_json::Value;

/// How far the failover gap may be from the application's own pause: a round trip with a full queue, and what a busy machine lets the
/// application wait for its turn.
const TOLERANCE: Duration = Duration::from_millis(40 + 60);

#[test]
fn a_pulled_cable_is_unreachable_here_and_a_timeout_there() {
    let Some(ended) = kill(How::LinkDown, 1) else { return };
    // A relay is as silent as a cable; netem's place is in a router, which says that the host is out of reach.
    let there = match ended.lab.path(1).unwrap().impairer().map(Impairer::enforcer) {
        Some(Enforcer::Netem) => "unreachable",
        _ => "timeout",
    };
    assert_eq!(reasons(&ended, 2), ["unreachable", there]);
}

#[test]
fn a_path_that_swallows_packets_goes_stale_and_times_out() {
    let Some(ended) = kill(How::Blackhole, 1) else { return };
    assert_eq!(reasons(&ended, 2), ["timeout", "timeout"]);
    let stale = told(ended.client(), "subflow_stale");
    let first = stale.first().unwrap_or_else(|| panic!("{}", show(ended.client())));
    assert_eq!((&first["stale"], &first["subflow"]), (&Value::from(true), &on_path(ended.client(), 2)["id"]));
}

#[test]
fn a_reset_of_one_subflow_is_sent_here_and_received_there() {
    let Some(ended) = kill(How::Reset, 1) else { return };
    assert_eq!(reasons(&ended, 2), ["reset_sent", "reset_received"]);
}

#[test]
fn a_deleted_endpoint_is_removed_by_admin_here_and_by_the_peer_there() {
    let Some(ended) = kill(How::EndpointDeleted, 1) else { return };
    assert_eq!(reasons(&ended, 2), ["removed_by_admin", "removed_by_peer"], "{}", show(ended.server()));
    assert_eq!(number(told(ended.server(), "peer_address_removed")[0], "address_id"), 2);
}

#[test]
fn a_withdrawn_announcement_is_removed_by_the_peer_here_and_by_admin_there() {
    let Some(ended) = kill(How::PeerRemovesAddress, 1) else { return };
    assert_eq!(reasons(&ended, 2), ["removed_by_peer", "removed_by_admin"]);
    assert_eq!(number(told(ended.client(), "peer_address_removed")[0], "address_id"), 2);
}

/// The kernel keeps the socket of the first subflow when it removes the subflow.
#[test]
fn the_first_subflow_removed_keeps_its_finals_and_comes_back_as_another() {
    if !may_run_as_root() {
        return;
    }
    let run = Run::start(lab(JoinBy::ClientSubflow, false), 8_000_000);
    run.received(2_000_000);
    let path = run.lab.path(0).unwrap();
    path.kill(How::EndpointDeleted).unwrap();
    let port = |run: &Run| {
        ends::sockets(run.lab.client()).keys().map(|(local, _)| *local).collect::<Vec<SocketAddr>>()
    };
    until("the first subflow to go", || port(&run).iter().all(|local| local.ip() != path.client_address()));
    let again =
        Endpoint { id: path.endpoint_id(), address: path.client_address(), purpose: Purpose::Subflow };
    endpoint::add(run.lab.client(), again, path.client_interface()).unwrap();
    until("it to come back", || port(&run).iter().any(|local| local.ip() == path.client_address()));
    run.held();
    let ended = run.finish();

    ended.assert_complete();
    for (end, connection, old_reason) in
        [(0, ended.client(), "removed_by_admin"), (1, ended.server(), "removed_by_peer")]
    {
        let [first, second] = all_on_path(connection, 1)[..] else { panic!("{}", show(connection)) };
        assert_eq!((reason(first), reason(second)), (old_reason, "fin"), "{}", show(connection));
        assert_ne!(text(first, "id"), text(second, "id"));
        assert_eq!((&first["initial"], &second["initial"]), (&Value::from(true), &Value::from(false)));
        covers(first, &ended, end);
        covers(second, &ended, end);
    }
    let carried: u64 = list(ended.client(), "subflows").iter().map(unique).sum();
    let twice = number(ended.client(), "bytes_reinjected");
    assert_eq!(carried, number(ended.client(), "bytes_sent") + twice, "{}", show(ended.client()));
    assert!(number(all_on_path(ended.client(), 1)[0], "bytes_sent") > 500_000, "{}", show(ended.client()));
}

#[test]
fn a_normal_close_is_fin_at_both_ends_and_the_timeline_is_in_order() {
    let Some(ended) = transfer(|_| ()) else { return };
    for number in [1, 2] {
        assert_eq!(reasons(&ended, number), ["fin", "fin"]);
    }
    // A connection is closed by DATA_FINs, its subflows by the FINs that follow.
    let (begin, end) =
        (["subflow_opened", "subflow_established"].repeat(2), ["closed", "subflow_closed", "subflow_closed"]);
    // A loss at the wrong time makes it stall for a moment.
    let client: Vec<&str> = events(ended.client()).into_iter().filter(|event| *event != "stalled").collect();
    assert_eq!(client, [&["opened"], &begin[..], &end].concat(), "{}", show(ended.client()));
    // A server opens a connection when the handshake ends, which was the subflow's beginning.
    let server = [&["subflow_opened", "opened", "subflow_established"], &begin[2..], &end].concat();
    assert_eq!(events(ended.server()), server, "{}", show(ended.server()));
    let entries = [ended.client(), ended.server()].map(|connection| list(connection, "timeline")).concat();
    assert!(entries.iter().all(|entry| entry["source"] == "tracepoint"), "{entries:#?}");
    assert_eq!([text(ended.client(), "role"), text(ended.server(), "role")], ["client", "server"]);
}

#[test]
fn an_aborted_connection_sent_resets_here_and_received_them_there() {
    let Some(ended) = transfer(|spec| spec.close = Close::Abort) else { return };
    for number in [1, 2] {
        assert_eq!(reasons(&ended, number), ["reset_sent", "reset_received"]);
    }
}

#[test]
fn mapped_sockets_show_their_ipv4_addresses() {
    let Some(ended) = transfer(|spec| spec.mapped = true) else { return };
    for connection in [ended.client(), ended.server()] {
        assert!(text(connection, "local").starts_with("10.1."), "{}", show(connection));
        assert!(text(connection, "remote").starts_with("10.1."), "{}", show(connection));
        assert_eq!(text(on_path(connection, 1), "local"), text(connection, "local"));
    }
}

#[test]
fn a_refused_connection_ends_by_a_received_reset_before_it_was_established() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow, false);
    let observer = Observer::start(&[]);
    let spec = lab.traffic(Workload::upload(1)).unwrap();
    let failed = lab.client().enter(|| run_client(&spec, &Control::default())).unwrap().unwrap();
    assert_eq!(failed.failures.len(), 1, "nobody listens");
    let report = observer.finish();
    let refused = report.connections_in(lab.client().name());
    assert!(!refused.is_empty() && report.connections_in(lab.server().name()).is_empty());
    for connection in refused {
        let [subflow] = list(connection, "subflows") else { panic!("{}", show(connection)) };
        assert_eq!(
            (reason(subflow), text(connection, "role")),
            ("reset_received", "client"),
            "{}",
            show(connection)
        );
        assert!(
            told(connection, "subflow_established").is_empty() && connection["fallback"].is_null(),
            "{}",
            show(connection)
        );
        assert!(connection["closed_at"].is_string() && number(connection, "bytes_sent") == 0);
    }
}

/// Kills the second path in the middle of a transfer; what holds whichever way it dies.
fn kill(how: How, path: usize) -> Option<Ended> {
    if !may_run_as_root() {
        return None;
    }
    let join = if how == How::PeerRemovesAddress { JoinBy::ServerSignal } else { JoinBy::ClientSubflow };
    let run = Run::start(lab(join, false), 8_000_000);
    run.received(2_000_000);
    run.lab.path(path).unwrap().kill(how).unwrap();
    run.held();
    let ended = run.finish();
    ended.assert_complete();
    for (end, connection) in [ended.client(), ended.server()].into_iter().enumerate() {
        covers(on_path(connection, 2), &ended, end);
    }
    let (sent, received) = (on_path(ended.client(), 2), on_path(ended.server(), 2));
    assert!(number(sent, "bytes_sent") > 100_000, "it carried something before: {}", show(ended.client()));
    assert!(
        number(received, "bytes_received") + 2 >= number(sent, "bytes_acked"),
        "{}",
        show(ended.server())
    );
    assert!(number(received, "bytes_received") <= unique(sent) + 1, "{}", show(ended.server()));
    survivor_is_exact(on_path(ended.client(), 1), &ended.outcome.client.connections[0], 0);
    survivor_is_exact(on_path(ended.server(), 1), &ended.outcome.server.connections[0], 1);
    assert_eq!(reasons(&ended, 1), ["fin", "fin"]);
    gap_agrees(&ended);
    let dropped = &ended.report.json["losses"];
    assert_eq!((number(dropped, "vanished"), number(dropped, "timeline_dropped")), (0, 0));
    Some(ended)
}

/// A short transfer of both paths that nothing happens to.
fn transfer(change: impl Fn(&mut Spec)) -> Option<Ended> {
    if !may_run_as_root() {
        return None;
    }
    let lab = lab(JoinBy::ClientSubflow, false);
    let mut spec = lab.traffic(Workload::upload(2_000_000)).unwrap();
    change(&mut spec);
    let run = Run::of(lab, &spec, &[]);
    run.held();
    let ended = run.finish();
    ended.assert_complete();
    Some(ended)
}

/// Why the subflow on a path ended, at the client and at the server, in the list and on the timeline.
#[track_caller]
fn reasons(ended: &Ended, path: u8) -> [&str; 2] {
    [ended.client(), ended.server()].map(|connection| {
        let subflow = on_path(connection, path);
        let closed = told(connection, "subflow_closed");
        let entry = closed.iter().find(|entry| entry["subflow"] == subflow["id"]);
        assert_eq!(entry.map(|entry| text(entry, "reason")), Some(reason(subflow)), "{}", show(connection));
        reason(subflow)
    })
}

/// Final counters are at least what `ss` saw shortly before the socket went.
#[track_caller]
fn covers(subflow: &Value, ended: &Ended, end: usize) {
    let address = |field| text(subflow, field).parse::<SocketAddr>().unwrap();
    let seen = ended.last_seen[end].get(&(address("local"), address("remote")));
    let seen = seen.unwrap_or_else(|| panic!("ss never saw {subflow:#}"));
    let names = ["bytes_sent", "bytes_acked", "bytes_received", "bytes_retrans"];
    for (name, ours) in
        names.into_iter().zip(["bytes_sent", "bytes_acked", "bytes_received", "bytes_retransmitted"])
    {
        let last = seen.get(name).copied().unwrap_or(0);
        assert!(number(subflow, ours) >= last, "{ours}: ss saw {last} in {subflow:#}");
    }
}

/// Equal to the kernel's account right before the close, which adds a FIN.
#[track_caller]
fn survivor_is_exact(subflow: &Value, application: &ConnectionReport, fin: u64) {
    let flow = application.flow.as_ref().expect("MPTCP_FULL_INFO");
    let local = text(subflow, "local").parse::<SocketAddr>().unwrap();
    let info = flow.subflows.iter().find(|info| info.local == local).expect("the kernel told of it");
    assert_eq!(number(subflow, "bytes_sent"), info.tcp.bytes_sent);
    assert_eq!(number(subflow, "bytes_retransmitted"), info.tcp.bytes_retrans);
    assert!(number(subflow, "bytes_received") - info.tcp.bytes_received <= 1.max(fin));
}

/// The longest gap told is the longest pause of the receiving application; no longer one is invented.
#[track_caller]
fn gap_agrees(ended: &Ended) {
    let gaps = told(ended.client(), "stalled")
        .into_iter()
        .map(|entry| Duration::from_micros(number(entry, "gap_us")));
    let longest = gaps.max().unwrap_or_default();
    println!("gap told {longest:?}, the application paused {:?}", ended.pause);
    let tolerance = pace::limit(TOLERANCE);
    // A pause near the shortest that counts as a stall may or may not be one.
    if longest.is_zero() && ended.pause < Duration::from_millis(100) + tolerance {
        return;
    }
    let difference = longest.abs_diff(ended.pause);
    assert!(difference <= tolerance, "{longest:?} told, {:?} seen: {}", ended.pause, show(ended.client()));
}

fn unique(subflow: &Value) -> u64 {
    number(subflow, "bytes_sent") - number(subflow, "bytes_retransmitted")
}
