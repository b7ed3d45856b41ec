// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares mpwatch's values with the application's counts, the kernel's socket information, interface counters and configured delays.

use std::net::IpAddr;
use std::time::Duration;

use mpwatch_lab::mib::Counters;
use mpwatch_lab::traffic::ConnectionReport;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::host::machine::Losses;
use mpwatch_model::snapshot::{Report, Snapshot};
use mpwatch_model::unit::Bytes;

use super::check::Check;

/// Accepted error of the wire estimate, which assumes that all segments with data, and all without, have the same options.
const WIRE_TOLERANCE: f64 = 0.02;
/// Accepted deviation of an RTT from the configured delay of its path: an RTT includes scheduling delays.
const RTT_TOLERANCE: f64 = 0.10;

const APPLICATION: &str = "application";
const FULL_INFO: &str = "MPTCP_FULL_INFO";
const TCP_INFO: &str = "tcp_info";
const MIB: &str = "MPTcpExt";
const INTERFACES: &str = "interfaces";
/// The source of configured delays: the configuration of the path, which netem or the lab's relay implements.
const PATH: &str = "path";
const PATH_AND_APPLICATION: &str = "path, application";

/// One end of the known transfer.
#[derive(Clone, Debug)]
pub(super) struct TransferEnd {
    /// `client` or `server`.
    pub(super) name: &'static str,
    pub(super) netns: String,
    /// Counts of the application at this end, and the kernel's report on its socket.
    pub(super) traffic: ConnectionReport,
    pub(super) mib: Counters,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BuiltPath {
    /// The client's address on the path.
    pub(super) client: IpAddr,
    /// Sum of the configured delays in both directions.
    pub(super) rtt: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Measurements {
    /// mpwatch's snapshot after the transfer, before its connection closed.
    pub(super) idle: Snapshot,
    pub(super) report: Report,
    pub(super) ends: [TransferEnd; 2],
    /// The client's report on the requests before the transfer, which had one small packet in flight at a time.
    pub(super) requests: ConnectionReport,
    pub(super) paths: Vec<BuiltPath>,
    /// Bytes sent by the client's interfaces.
    pub(super) wire_bytes: u64,
}

pub(super) fn all(measured: &Measurements) -> Vec<Check> {
    let [client, server] = &measured.ends;
    let mut checks = application(client, server);
    for (end, peer) in [(client, server), (server, client)] {
        checks.extend(one_end(measured, end, peer));
    }
    checks.push(wire(measured, client));
    checks.extend(round_trips(measured, client));
    checks.extend([client, server].into_iter().flat_map(|end| counts(&measured.report, end)));
    checks.push(losses(&measured.report.losses));
    checks
}

/// Checks that the transfer itself was correct. If it was not, the other checks mean nothing.
fn application(client: &TransferEnd, server: &TransferEnd) -> Vec<Check> {
    let hash = |hash: u64| format!("{hash:016x}");
    let [received, sent] = [server.traffic.received_hash, client.traffic.sent_hash].map(hash);
    vec![
        Check::exact("bytes written and read", server.traffic.received, client.traffic.sent, APPLICATION),
        Check::exact("hash of the stream", received, sent, APPLICATION),
    ]
}

/// Compares the connection at one end, except values that an older kernel does not report.
fn one_end(measured: &Measurements, end: &TransferEnd, peer: &TransferEnd) -> Vec<Check> {
    let named = |what: &str| format!("{}: {what}", end.name);
    let found = find(&measured.report.connections, end, &end.traffic);
    let idle = find(&measured.idle.connections, end, &end.traffic);
    let (Some(ours), Some(idle)) = (found, idle) else {
        return vec![Check::exact(named("the connection is known"), 0_u64, 1_u64, APPLICATION)];
    };
    let full_info = |end: &TransferEnd| {
        end.traffic.socket_info.as_ref().and_then(|flow| flow.mptcp.clone()).unwrap_or_default()
    };
    let (kernel, kernel_of_peer) = (full_info(end), full_info(peer));
    let resent = ours.mptcp_bytes_retransmitted;
    let totals = [
        ("bytes sent", ours.bytes_sent, Some(end.traffic.sent), APPLICATION),
        ("bytes received", ours.bytes_received, Some(end.traffic.received), APPLICATION),
        ("bytes sent", ours.bytes_sent, kernel.bytes_sent, FULL_INFO),
        ("bytes received", ours.bytes_received, kernel.bytes_received, FULL_INFO),
        ("bytes retransmitted by MPTCP", resent, kernel.bytes_retrans, FULL_INFO),
    ];
    let total = |(what, ours, theirs, source): (&str, Option<Bytes>, Option<u64>, _)| {
        Some(Check::exact(named(what), ours.map(|bytes| bytes.0), theirs?, source))
    };
    let mut checks: Vec<Check> = totals.into_iter().filter_map(total).collect();
    let pair = |own: u32, of_peer: u32| format!("{own:08x}/{of_peer:08x}");
    let [own, of_peer] = [ours.token, ours.remote_token].map(|token| token.map_or(0, |token| token.0));
    let theirs = pair(kernel.token, kernel_of_peer.token);
    checks.push(Check::exact(named("tokens, own/peer's"), pair(own, of_peer), theirs, FULL_INFO));
    checks.extend(subflows(ours, idle, end));
    checks
}

/// Compares the bytes of the final report. The kernel's byte counts include (re)transmissions that a queue of this host refused.
/// Compares the segments of the snapshot before the close (`idle`), because the final report may also count a retransmitted FIN.
fn subflows(ours: &Connection, idle: &Connection, end: &TransferEnd) -> Vec<Check> {
    let theirs = end.traffic.socket_info.as_ref().map_or(&[][..], |flow| &flow.subflows);
    let name = format!("{}: subflows", end.name);
    let mut checks = vec![Check::exact(name, ours.subflows.len(), theirs.len(), FULL_INFO)];
    for (place, info) in (1..).zip(theirs) {
        let same = |subflow: &&Subflow| (subflow.local, subflow.remote) == (info.local, info.remote);
        let last = ours.subflows.iter().find(same);
        let segments = idle.subflows.iter().find(same).map(|subflow| subflow.segments_retransmitted.into());
        let refused = last.map_or(0, |subflow| subflow.bytes_refused.0);
        let retrans = last.map(|subflow| subflow.bytes_retransmitted.0);
        let refused_retrans = info.tcp.bytes_retrans.saturating_sub(retrans.unwrap_or(0)).min(refused);
        let numbers = [
            ("bytes sent", last.map(|subflow| subflow.bytes_sent.0 + refused), info.tcp.bytes_sent),
            ("bytes retransmitted", retrans.map(|bytes| bytes + refused_retrans), info.tcp.bytes_retrans),
            ("segments retransmitted", segments, info.tcp.total_retrans.into()),
        ];
        checks.extend(numbers.map(|(what, ours, theirs): (_, Option<u64>, u64)| {
            Check::exact(format!("{}: subflow {place}: {what}", end.name), ours, theirs, TCP_INFO)
        }));
    }
    checks
}

fn wire(measured: &Measurements, client: &TransferEnd) -> Check {
    let ours: u64 = in_namespace(&measured.report, client)
        .flat_map(|connection| &connection.subflows)
        .map(|subflow| subflow.wire_bytes_sent_estimate.0)
        .sum();
    Check::within(WIRE_TOLERANCE, "client: wire bytes (estimate)", ours, measured.wire_bytes, INTERFACES)
}

/// Compares the lowest RTT of each path, and the median RTT of the first path while its queues were empty.
fn round_trips(measured: &Measurements, client: &TransferEnd) -> Vec<Check> {
    let connections = &measured.report.connections;
    let on = |traffic: &ConnectionReport, path: &BuiltPath| {
        let connection = find(connections, client, traffic)?;
        connection.subflows.iter().find(|subflow| subflow.local.ip() == path.client)
    };
    let micros = |path: &BuiltPath| u64::try_from(path.rtt.as_micros()).unwrap_or(u64::MAX);
    let mut checks = Vec::new();
    for (path, place) in measured.paths.iter().zip(1..) {
        let lowest = on(&client.traffic, path).and_then(|subflow| subflow.rtt_min).map(|rtt| rtt.0);
        let name = format!("path {place}: lowest RTT in us");
        checks.push(Check::within(RTT_TOLERANCE, name, lowest, micros(path), PATH));
    }
    if let Some(first) = measured.paths.first() {
        let traffic = &measured.requests;
        let median = on(traffic, first).and_then(|subflow| subflow.rtt_p50).map(|rtt| rtt.0);
        // On a busy machine a round trip takes longer than the delay of its path, but not longer than the exchange of the application.
        let exchange = traffic.transfer_time.as_micros() / u128::from(traffic.exchanges.max(1));
        let bounds = [micros(first), u64::try_from(exchange).unwrap_or(u64::MAX)];
        let name = "path 1: median RTT in us, idle";
        checks.push(Check::between(RTT_TOLERANCE, name, median, bounds, PATH_AND_APPLICATION));
    }
    checks
}

/// Compares the numbers of connections and of joined subflows with the namespace's counters of handshakes.
fn counts(report: &Report, end: &TransferEnd) -> [Check; 2] {
    let handshakes = match end.name {
        "client" => ["MPTcpExtMPCapableSYNACKRX", "MPTcpExtMPJoinSynAckRx"],
        _ => ["MPTcpExtMPCapableACKRX", "MPTcpExtMPJoinAckRx"],
    };
    let [connections, joins] = handshakes.map(|name| end.mib.get(name).copied().unwrap_or(0));
    let ours = in_namespace(report, end).count();
    let joined = in_namespace(report, end)
        .flat_map(|connection| &connection.subflows)
        .filter(|subflow| !subflow.initial)
        .count();
    [
        Check::exact(format!("{}: MPTCP connections", end.name), ours, connections, MIB),
        Check::exact(format!("{}: joins", end.name), joined, joins, MIB),
    ]
}

fn losses(losses: &Losses) -> Check {
    let what = losses.phrases();
    let ours = if what.is_empty() { "none".to_owned() } else { what.join("; ") };
    Check::exact("losses", ours, "none".to_owned(), "expected")
}

fn in_namespace<'a>(report: &'a Report, end: &'a TransferEnd) -> impl Iterator<Item = &'a Connection> {
    report.connections.iter().filter(|connection| connection.netns == end.netns)
}

fn find<'a>(
    connections: &'a [Connection],
    end: &TransferEnd,
    traffic: &ConnectionReport,
) -> Option<&'a Connection> {
    connections.iter().find(|connection| {
        connection.netns == end.netns
            && (connection.local, connection.remote) == (Some(traffic.local), Some(traffic.remote))
    })
}

#[cfg(test)]
mod tests;
