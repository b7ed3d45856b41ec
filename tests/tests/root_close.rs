// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ends of subflows: mpwatch reports the right reason at each end, loses no counters, and reports the stall of the connection.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod observed;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use mpwatch_lab::endpoint::{self, Endpoint, Purpose};
use mpwatch_lab::topology::{JoinBy, PathFailure};
use mpwatch_lab::traffic::{Close, ConnectionReport, TrafficSpec, Workload};
use mpwatch_lab::{ImpairerKind, mib};
use mpwatch_tests::{Observer, emulation, list, may_run_as_root, number, text};
use observed::{
    ObservedTransfer, TransferResult, all_on_path, events, lab, on_path, reason, show, timeline_entries,
    wait_until,
};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

/// Allowed difference between the reported stall and the application's stall: a round trip with a full queue (40 ms), and the
/// scheduling delay of a busy machine (60 ms).
const TOLERANCE: Duration = Duration::from_millis(40 + 60);

#[test]
fn a_link_down_is_unreachable_at_the_client_and_a_timeout_at_the_server() {
    let Some(result) = fail_during_transfer(PathFailure::LinkDown, 1) else { return };
    // netem runs in a router, which sends ICMP host unreachable when it cannot resolve the client's address any more. The message is sent
    // before the server gives up the subflow or, with PREEMPT_RT, afterwards. The relay sends no ICMP.
    let has_router =
        result.lab.path(1).unwrap().impairer().is_some_and(|impairer| impairer.kind() == ImpairerKind::Netem);
    let [at_client, at_server] = reasons(&result, 2);
    assert_eq!(at_client, "unreachable");
    assert!(at_server == "timeout" || has_router && at_server == "unreachable", "{at_server}");
}

#[test]
fn a_subflow_in_a_black_hole_becomes_stale_and_times_out() {
    let Some(result) = fail_during_transfer(PathFailure::Blackhole, 1) else { return };
    assert_eq!(reasons(&result, 2), ["timeout", "timeout"]);
    let stale = timeline_entries(result.client(), "subflow_stale");
    let first = stale.first().unwrap_or_else(|| panic!("{}", show(result.client())));
    assert_eq!(
        (&first["stale"], &first["subflow"]),
        (&Value::from(true), &on_path(result.client(), 2)["id"])
    );
}

#[test]
fn a_destroyed_subflow_is_removed_here_and_reset_there() {
    let Some(result) = fail_during_transfer(PathFailure::Reset, 1) else { return };
    assert_eq!(reasons(&result, 2), ["removed_by_admin", "reset_received"]);
}

#[test]
fn a_subflow_that_the_peer_destroyed_received_the_reset() {
    let Some(result) = fail_during_transfer(PathFailure::PeerReset, 1) else { return };
    assert_eq!(reasons(&result, 2), ["reset_received", "removed_by_admin"]);
}

#[test]
fn a_deleted_endpoint_is_removed_by_admin_at_the_client_and_by_the_peer_at_the_server() {
    let Some(result) = fail_during_transfer(PathFailure::EndpointDeleted, 1) else { return };
    let received = removals_received(&result);
    assert_eq!(
        reasons(&result, 2),
        ["removed_by_admin", reason_after(received)],
        "{}",
        show(result.server())
    );
    let removals = timeline_entries(result.server(), "peer_address_removed");
    assert_eq!(removals.len() as u64, received, "{}", show(result.server()));
    assert!(removals.iter().all(|removal| removal["address_id"] == 2), "{removals:#?}");
}

/// Number of REMOVE_ADDR options that the server's kernel received. TCP does not acknowledge an option, and the kernel may close the
/// subflow before it has sent the option: then the server receives a FIN only.
fn removals_received(result: &TransferResult) -> u64 {
    mib::read(result.lab.server()).unwrap()["MPTcpExtRmAddr"]
}

/// Expected close reason at the server, by the number of REMOVE_ADDR options that its kernel received.
fn reason_after(removals_received: u64) -> &'static str {
    if removals_received == 0 { "closed_by_peer" } else { "removed_by_peer" }
}

#[test]
fn a_removed_announcement_is_removed_by_the_peer_at_the_client_and_by_admin_at_the_server() {
    let Some(result) = fail_during_transfer(PathFailure::PeerRemovesAddress, 1) else { return };
    // The option travels on the first path, the reset on the second, so on a busy machine the reset may arrive first.
    let [at_client, at_server] = reasons(&result, 2);
    assert!(["removed_by_peer", "reset_received"].contains(&at_client), "{at_client}");
    assert_eq!(at_server, "removed_by_admin");
    assert_eq!(number(timeline_entries(result.client(), "peer_address_removed")[0], "address_id"), 2);
}

/// The kernel reuses the socket of the initial subflow after it removes the subflow.
#[test]
fn a_removed_initial_subflow_keeps_its_final_counters_and_returns_as_another_subflow() {
    if !may_run_as_root() {
        return;
    }
    let run = ObservedTransfer::start(lab(JoinBy::ClientSubflow, false), 8_000_000);
    run.wait_for_bytes(2_000_000);
    let path = run.lab.path(0).unwrap();
    path.fail(PathFailure::EndpointDeleted).unwrap();
    let local_addresses = |run: &ObservedTransfer| {
        observed::sockets(run.lab.client()).keys().map(|(local, _)| *local).collect::<Vec<SocketAddr>>()
    };
    wait_until("the initial subflow to close", || {
        local_addresses(&run).iter().all(|local| local.ip() != path.client_address())
    });
    let endpoint =
        Endpoint { id: path.endpoint_id(), address: path.client_address(), purpose: Purpose::Subflow };
    endpoint::add(run.lab.client(), endpoint, path.client_interface()).unwrap();
    wait_until("the new subflow", || {
        local_addresses(&run).iter().any(|local| local.ip() == path.client_address())
    });
    run.wait_for_completion();
    let result = run.finish();

    result.assert_complete();
    let of_server = reason_after(removals_received(&result));
    for (end, connection, old_reason) in
        [(0, result.client(), "removed_by_admin"), (1, result.server(), of_server)]
    {
        let [first, second] = all_on_path(connection, 1)[..] else { panic!("{}", show(connection)) };
        assert_eq!((reason(first), reason(second)), (old_reason, "fin"), "{}", show(connection));
        assert_ne!(text(first, "id"), text(second, "id"));
        assert_eq!((&first["initial"], &second["initial"]), (&Value::from(true), &Value::from(false)));
        assert_not_below_ss(first, &result, end);
        assert_not_below_ss(second, &result, end);
    }
    let carried: u64 = list(result.client(), "subflows").iter().map(unique).sum();
    let reinjected = number(result.client(), "bytes_reinjected");
    assert_eq!(carried, number(result.client(), "bytes_sent") + reinjected, "{}", show(result.client()));
    assert!(number(all_on_path(result.client(), 1)[0], "bytes_sent") > 500_000, "{}", show(result.client()));
}

#[test]
fn a_reset_of_a_path_whose_address_was_removed_before_is_not_a_removal() {
    if !may_run_as_root() {
        return;
    }
    let run = ObservedTransfer::start(lab(JoinBy::ClientSubflow, false), 8_000_000);
    run.wait_for_bytes(1_000_000);
    let path = run.lab.path(1).unwrap();
    let at_client = || {
        let sockets = observed::sockets(run.lab.client());
        sockets.keys().any(|(local, _)| local.ip() == path.client_address())
    };
    let at_server = || {
        let sockets = observed::sockets(run.lab.server());
        sockets.keys().any(|(_, remote)| remote.ip() == path.client_address())
    };
    path.fail(PathFailure::EndpointDeleted).unwrap();
    // A server that still has the old subflow may refuse the new one, and Linux 6.1 does not try again.
    wait_until("the joined subflow to close at both ends", || !at_client() && !at_server());
    let endpoint =
        Endpoint { id: path.endpoint_id(), address: path.client_address(), purpose: Purpose::Subflow };
    endpoint::add(run.lab.client(), endpoint, path.client_interface()).unwrap();
    wait_until("the new subflow at the server", at_server);
    run.wait_for_bytes(4_000_000);
    path.fail(PathFailure::PeerReset).unwrap();
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    for (connection, expected) in [
        (result.client(), ["removed_by_admin", "reset_received"]),
        (result.server(), [reason_after(removals_received(&result)), "removed_by_admin"]),
    ] {
        let reasons: Vec<&str> = all_on_path(connection, 2).into_iter().map(reason).collect();
        assert_eq!(reasons, expected, "{}", show(connection));
    }
}

#[test]
fn after_a_syn_cookie_the_handshake_is_unknown_at_the_server() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow, false);
    lab.server().sysctl("net.ipv4.tcp_syncookies", "2").unwrap();
    let spec = lab.traffic(Workload::upload(500_000)).unwrap();
    let run = ObservedTransfer::with_spec(lab, &spec, &[]);
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    let [at_client, at_server] =
        [result.client(), result.server()].map(|end| &on_path(end, 1)["handshake_us"]);
    assert!(at_client.is_number() && at_server.is_null(), "{at_client} {at_server}");
}

#[test]
fn a_normal_close_is_fin_at_both_ends_and_the_timeline_is_in_order() {
    let Some(result) = transfer(|_| ()) else { return };
    for number in [1, 2] {
        assert_eq!(reasons(&result, number), ["fin", "fin"]);
    }
    // DATA_FINs close the connection, then FINs close its subflows.
    let (begin, end) =
        (["subflow_opened", "subflow_established"].repeat(2), ["closed", "subflow_closed", "subflow_closed"]);
    // A loss may cause a short stall.
    let client: Vec<&str> = events(result.client()).into_iter().filter(|event| *event != "stalled").collect();
    assert_eq!(client, [&["opened"], &begin[..], &end].concat(), "{}", show(result.client()));
    // At the server, the subflow opens with the SYN, and the connection opens when the handshake ends.
    let server = [&["subflow_opened", "opened", "subflow_established"], &begin[2..], &end].concat();
    assert_eq!(events(result.server()), server, "{}", show(result.server()));
    let entries = [result.client(), result.server()].map(|connection| list(connection, "timeline")).concat();
    assert!(entries.iter().all(|entry| entry["source"] == "tracepoint"), "{entries:#?}");
    assert_eq!([text(result.client(), "role"), text(result.server(), "role")], ["client", "server"]);
}

#[test]
fn the_client_of_an_aborted_connection_sent_resets_and_the_server_received_them() {
    let Some(result) = transfer(|spec| spec.close = Close::Abort) else { return };
    for number in [1, 2] {
        assert_eq!(reasons(&result, number), ["reset_sent", "reset_received"]);
    }
}

#[test]
fn mapped_sockets_show_their_ipv4_addresses() {
    let Some(result) = transfer(|spec| spec.mapped = true) else { return };
    for connection in [result.client(), result.server()] {
        assert!(text(connection, "local").starts_with("10.1."), "{}", show(connection));
        assert!(text(connection, "remote").starts_with("10.1."), "{}", show(connection));
        assert_eq!(text(on_path(connection, 1), "local"), text(connection, "local"));
    }
}

#[test]
fn a_refused_connection_is_refused_and_was_never_established() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow, false);
    let observer = Observer::start(&[]);
    let server = lab.traffic(Workload::upload(1)).unwrap().server;
    let connect =
        || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap().connect(&server.into());
    let refused = lab.client().enter(connect).unwrap();
    assert_eq!(
        refused.map_err(|error| error.kind()),
        Err(ErrorKind::ConnectionRefused),
        "there is no listener"
    );
    let report = observer.finish();
    let refused = report.connections_in(lab.client().name());
    assert!(!refused.is_empty() && report.connections_in(lab.server().name()).is_empty());
    for connection in refused {
        let [subflow] = list(connection, "subflows") else { panic!("{}", show(connection)) };
        assert_eq!(
            (reason(subflow), text(connection, "role")),
            ("refused", "client"),
            "{}",
            show(connection)
        );
        assert!(
            timeline_entries(connection, "subflow_established").is_empty()
                && connection["fallback"].is_null(),
            "{}",
            show(connection)
        );
        assert!(connection["closed_at"].is_string() && number(connection, "bytes_sent") == 0);
    }
}

/// An MPTCP socket with a local address. Several may have the same address.
fn mptcp_socket(local: &str) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&local.parse::<SocketAddr>().unwrap().into()).unwrap();
    socket
}

#[test]
fn unanswered_syns_are_a_fallback_only_if_a_syn_without_the_option_is_answered() {
    if !may_run_as_root() {
        return;
    }
    for is_answered in [false, true] {
        let lab = lab(JoinBy::ClientSubflow, false);
        let server = lab.traffic(Workload::upload(1)).unwrap().server;
        let listener = lab.server().enter(|| mptcp_socket(&format!("0.0.0.0:{}", server.port()))).unwrap();
        listener.listen(1).unwrap();
        let chain = "add chain ip closed in { type filter hook input priority 0; policy drop; }";
        lab.server().nft(&format!("add table ip closed; {chain}")).unwrap();
        let observer = Observer::start(&[]);
        let socket = lab.client().enter(|| mptcp_socket("0.0.0.0:0")).unwrap();
        socket.set_nonblocking(true).unwrap();
        assert_eq!(socket.connect(&server.into()).unwrap_err().raw_os_error(), Some(115), "EINPROGRESS");
        std::thread::sleep(Duration::from_secs(4));
        if is_answered {
            lab.server().nft("delete table ip closed").unwrap();
            wait_until("the connection", || socket.peer_addr().is_ok());
        }
        let dropped =
            mib::read(lab.client()).unwrap().get("MPTcpExtMPCapableSYNTXDrop").copied().unwrap_or(0);
        drop(socket);
        let report = observer.finish();
        let connection = report.only_connection_in(lab.client().name());
        let fallback = (is_answered && dropped > 0).then_some("option_omitted");
        assert_eq!(connection["fallback"]["reason"].as_str(), fallback, "{}", show(connection));
        let is_unanswered = reason(&list(connection, "subflows")[0]) == "unanswered";
        assert_eq!(is_unanswered, !is_answered, "{}", show(connection));
        assert!(timeline_entries(connection, "subflow_stale").is_empty(), "{}", show(connection));
    }
}

#[test]
fn a_connect_from_an_address_and_port_in_use_sends_no_syn() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow, false);
    let server = lab.traffic(Workload::upload(1)).unwrap().server;
    let listener = lab.server().enter(|| mptcp_socket(&format!("0.0.0.0:{}", server.port()))).unwrap();
    listener.listen(1).unwrap();
    let local = format!("{}:12345", lab.path(0).unwrap().client_address());
    let open = lab.client().enter(|| mptcp_socket(&local)).unwrap();
    open.connect(&server.into()).unwrap();
    let observer = Observer::start(&[]);
    let second = lab.client().enter(|| mptcp_socket(&local)).unwrap();
    let error = second.connect(&server.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrNotAvailable, "{error}");
    drop(second);
    let report = observer.finish();
    let connections = report.connections_in(lab.client().name());
    let unsent: Vec<&Value> = connections.into_iter().filter(|found| found["seen_open"] == true).collect();
    let [connection] = unsent[..] else { panic!("{unsent:#?}") };
    let subflow = &list(connection, "subflows")[0];
    assert_eq!((reason(subflow), &subflow["created_at"]), ("not_sent", &Value::Null), "{}", show(connection));
    assert!(timeline_entries(connection, "subflow_opened").is_empty(), "{}", show(connection));
}

/// Makes a path fail during a transfer, and checks the properties that all kinds of failure have in common.
fn fail_during_transfer(failure: PathFailure, path: usize) -> Option<TransferResult> {
    if !may_run_as_root() {
        return None;
    }
    let join =
        if failure == PathFailure::PeerRemovesAddress { JoinBy::ServerSignal } else { JoinBy::ClientSubflow };
    let run = ObservedTransfer::start(lab(join, false), 8_000_000);
    run.wait_for_bytes(2_000_000);
    run.lab.path(path).unwrap().fail(failure).unwrap();
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    for (end, connection) in [result.client(), result.server()].into_iter().enumerate() {
        assert_not_below_ss(on_path(connection, 2), &result, end);
    }
    let (sent, received) = (on_path(result.client(), 2), on_path(result.server(), 2));
    assert!(
        number(sent, "bytes_sent") > 100_000,
        "the path carried data before the failure: {}",
        show(result.client())
    );
    assert!(
        number(received, "bytes_received") + 2 >= number(sent, "bytes_acked"),
        "{}",
        show(result.server())
    );
    assert!(number(received, "bytes_received") <= unique(sent) + 1, "{}", show(result.server()));
    assert_equal_to_kernel(on_path(result.client(), 1), &result.outcome.client.connections[0], 0);
    assert_equal_to_kernel(on_path(result.server(), 1), &result.outcome.server.connections[0], 1);
    assert_eq!(reasons(&result, 1), ["fin", "fin"]);
    assert_stall_reported(&result);
    let dropped = &result.report.json["losses"];
    assert_eq!((number(dropped, "vanished"), number(dropped, "timeline_dropped")), (0, 0));
    Some(result)
}

/// A short transfer over both paths without failures.
fn transfer(change: impl Fn(&mut TrafficSpec)) -> Option<TransferResult> {
    if !may_run_as_root() {
        return None;
    }
    let lab = lab(JoinBy::ClientSubflow, false);
    let mut spec = lab.traffic(Workload::upload(2_000_000)).unwrap();
    change(&mut spec);
    let run = ObservedTransfer::with_spec(lab, &spec, &[]);
    run.wait_for_completion();
    let result = run.finish();
    result.assert_complete();
    Some(result)
}

/// Close reasons of the subflow on a path, at the client and at the server. Asserts that the timeline has the same reasons.
#[track_caller]
fn reasons(result: &TransferResult, path: u8) -> [&str; 2] {
    [result.client(), result.server()].map(|connection| {
        let subflow = on_path(connection, path);
        let closed = timeline_entries(connection, "subflow_closed");
        let entry = closed.iter().find(|entry| entry["subflow"] == subflow["id"]);
        assert_eq!(entry.map(|entry| text(entry, "reason")), Some(reason(subflow)), "{}", show(connection));
        reason(subflow)
    })
}

/// Asserts that the final counters are not less than the last values of `ss`.
#[track_caller]
fn assert_not_below_ss(subflow: &Value, result: &TransferResult, end: usize) {
    let address = |field| text(subflow, field).parse::<SocketAddr>().unwrap();
    let counters = result.last_counters[end].get(&(address("local"), address("remote")));
    let counters = counters.unwrap_or_else(|| panic!("ss never listed {subflow:#}"));
    // ss also counts segments that a queue of this host refused.
    let refused = number(subflow, "bytes_refused");
    for (name, ours, refused) in [
        ("bytes_sent", "bytes_sent", refused),
        ("bytes_acked", "bytes_acked", 0),
        ("bytes_received", "bytes_received", 0),
        ("bytes_retrans", "bytes_retransmitted", refused),
    ] {
        let last = counters.get(name).copied().unwrap_or(0);
        assert!(number(subflow, ours) + refused >= last, "{ours}: ss reported {last}: {subflow:#}");
    }
}

/// Asserts that the counters are equal to the kernel's counters just before the close. The close adds a FIN.
#[track_caller]
fn assert_equal_to_kernel(subflow: &Value, application: &ConnectionReport, fin: u64) {
    let info = application.socket_info.as_ref().expect("MPTCP_FULL_INFO");
    let local = text(subflow, "local").parse::<SocketAddr>().unwrap();
    let info = info.subflows.iter().find(|info| info.local == local).expect("the subflow is open");
    let (refused, again) = (number(subflow, "bytes_refused"), number(subflow, "bytes_retransmitted"));
    assert_eq!(number(subflow, "bytes_sent") + refused, info.tcp.bytes_sent);
    assert!((again..=again + refused).contains(&info.tcp.bytes_retrans), "{subflow:#}");
    assert!(number(subflow, "bytes_received") - info.tcp.bytes_received <= 1.max(fin));
}

/// Asserts that the longest reported stall is the longest stall of the receiving application.
#[track_caller]
fn assert_stall_reported(result: &TransferResult) {
    let stalls = timeline_entries(result.client(), "stalled")
        .into_iter()
        .map(|entry| Duration::from_micros(number(entry, "gap_us")));
    let longest = stalls.max().unwrap_or_default();
    println!("reported stall {longest:?}, of the application {:?}", result.longest_stall);
    let tolerance = emulation::timeout(TOLERANCE);
    // A stall near the threshold may or may not be reported.
    if longest.is_zero() && result.longest_stall < Duration::from_millis(100) + tolerance {
        return;
    }
    let difference = longest.abs_diff(result.longest_stall);
    assert!(
        difference <= tolerance,
        "reported {longest:?}, measured {:?}: {}",
        result.longest_stall,
        show(result.client())
    );
}

fn unique(subflow: &Value) -> u64 {
    number(subflow, "bytes_sent") - number(subflow, "bytes_retransmitted")
}
