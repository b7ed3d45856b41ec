// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions under which a connection does not use MPTCP.

use mpwatch_model::kernel::lifecycle::CarriedBy;
use mpwatch_model::why::facts::Connection;

use super::case::{Case, Found};

/// Whether the connection is plain TCP, or does not exist yet.
fn is_not_mptcp(case: &Case<'_>) -> bool {
    case.is_new() || case.carried_by() == Some(CarriedBy::Tcp)
}

pub(super) fn no_mptcp_in_kernel(case: &Case<'_>) -> Option<Found> {
    let found = || Found::certain(vec!["/proc/sys/net/mptcp does not exist".to_owned()]);
    (is_not_mptcp(case) && case.here.sysctls.is_empty()).then(found)
}

pub(super) fn disabled(case: &Case<'_>) -> Option<Found> {
    let is_off = case.here.sysctl("enabled") == Some("0");
    (is_not_mptcp(case) && is_off).then(|| Found::certain(vec!["net.mptcp.enabled = 0".to_owned()]))
}

/// Whether MPTCP could be used here, so that a plain TCP connection has another reason.
fn is_plain_although_enabled(case: &Case<'_>) -> bool {
    case.carried_by() == Some(CarriedBy::Tcp) && case.here.sysctl("enabled") == Some("1")
}

pub(super) fn tcp_program(case: &Case<'_>) -> Option<Found> {
    let connection = case.connection.filter(|_| is_plain_although_enabled(case) && case.is_client())?;
    let program = connection.program.clone().unwrap_or_else(|| "the program".to_owned());
    let evidence = format!("the socket {} -> {} is a TCP socket", connection.local, connection.remote);
    Some(Found::certain(vec![evidence]).with("program", program))
}

/// Whether the listener of an accepted connection accepts MPTCP. `None`: this host opened the connection, or the listener is closed.
fn listener_has_mptcp(case: &Case<'_>) -> Option<bool> {
    let connection = case.connection.filter(|_| !case.is_client())?;
    let mut listeners = case.here.listeners.iter();
    let listens = listeners.find(|listener| {
        let address = listener.address;
        address.port() == connection.local.port()
            && (address.ip().is_unspecified() || address.ip() == connection.local.ip())
    });
    listens.map(|listener| listener.mptcp)
}

pub(super) fn tcp_listener(case: &Case<'_>) -> Option<Found> {
    let connection = case.connection.filter(|_| is_plain_although_enabled(case))?;
    let port = connection.local.port();
    let program = connection.program.clone().unwrap_or_else(|| "the program".to_owned());
    let found = Found::certain(vec![format!("the listening socket of port {port} is a TCP socket")]);
    (listener_has_mptcp(case) == Some(false)).then(|| found.with("program", program).with("port", port))
}

pub(super) fn tcp_client(case: &Case<'_>) -> Option<Found> {
    let connection = case.connection.filter(|_| is_plain_although_enabled(case))?;
    let port = connection.local.port();
    let mut evidence = vec![format!("the listening socket of port {port} accepts MPTCP")];
    evidence.extend(case.counters(&["MPTcpExtMPCapableSYNRX"]));
    let is_only = case.counter("MPCapableSYNRX") == 0;
    let found = if is_only { Found::certain(evidence) } else { Found::likely(evidence) };
    (listener_has_mptcp(case) == Some(true)).then(|| found.with("peer", connection.remote.ip()))
}

pub(super) fn no_option_in_ack(case: &Case<'_>) -> Option<Found> {
    let connection = case.connection.filter(|_| is_plain_although_enabled(case))?;
    let is_cause = case.counter("MPCapableFallbackACK") > 0 && listener_has_mptcp(case) == Some(true);
    let evidence = case.counters(&["MPTcpExtMPCapableSYNRX", "MPTcpExtMPCapableFallbackACK"]);
    is_cause.then(|| Found::likely(evidence).with("peer", connection.remote.ip()))
}

/// The connection, if it fell back during its handshake.
fn fell_back_early<'a>(case: &Case<'a>) -> Option<&'a Connection> {
    let is_early = |connection: &&Connection| !connection.peer_has_mptcp;
    case.connection.filter(is_early).filter(|_| case.carried_by() == Some(CarriedBy::Fallback))
}

const DROPPED: &str = "MPTcpExtMPCapableSYNTXDrop";
const NOT_ASKED: &str = "MPTcpExtMPCapableSYNTXDisabled";

pub(super) fn syn_dropped(case: &Case<'_>) -> Option<Found> {
    let connection =
        fell_back_early(case).filter(|connection| !connection.asked && connection.retransmissions > 0)?;
    let mut evidence = vec![format!("{} segments were retransmitted", connection.retransmissions)];
    evidence.extend(case.counters(&[DROPPED, "MPTcpExtMPCapableSYNTX"]));
    let is_only = case.here.counter(NOT_ASKED) == 0;
    let found = || if is_only { Found::certain(evidence.clone()) } else { Found::likely(evidence.clone()) };
    (case.here.counter(DROPPED) > 0).then(found)
}

pub(super) fn black_hole(case: &Case<'_>) -> Option<Found> {
    let timeout = case.here.sysctl("blackhole_timeout").filter(|timeout| *timeout != "0")?;
    let is_first =
        fell_back_early(case).is_some_and(|connection| !connection.asked && connection.retransmissions == 0);
    let found = if is_first && case.here.counter(NOT_ASKED) > 0 {
        Found::certain(case.counters(&[NOT_ASKED, "MPTcpExtBlackhole"]))
    } else if case.is_new() && case.counter("Blackhole") > 0 {
        Found::likely(case.counters(&["MPTcpExtBlackhole", DROPPED]))
    } else {
        return None;
    };
    Some(found.with("timeout", timeout))
}

pub(super) fn no_option_in_answer(case: &Case<'_>) -> Option<Found> {
    let connection = fell_back_early(case).filter(|connection| connection.asked)?;
    let evidence = case.counters(&["MPTcpExtMPCapableFallbackSYNACK"]);
    Some(Found::certain(evidence).with("peer", connection.remote.ip()))
}

pub(super) fn fell_back_later(case: &Case<'_>) -> Option<Found> {
    const REASONS: [&str; 8] = [
        "DssFallback",
        "MPCapableFallbackACK",
        "MPCapableDataFallback",
        "DSSCorruptionFallback",
        "DataCsumErr",
        "MPFailRx",
        "MD5SigFallback",
        "SimultConnectFallback",
    ];
    let is_late = case.carried_by() == Some(CarriedBy::Fallback) && fell_back_early(case).is_none();
    let counted = REASONS.iter().map(|name| (name, case.counter(name))).filter(|(_, count)| *count > 0);
    let evidence = counted.map(|(name, count)| format!("MPTcpExt{name} {count}")).collect();
    is_late.then(|| Found::likely(evidence))
}
