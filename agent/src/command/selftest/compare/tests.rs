// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run in which all sources agree, and runs in which one differs.

use mpwatch_fixtures as fixture;
use mpwatch_lab::{MptcpInfo, SocketInfo, SubflowInfo, TcpInfo};
use mpwatch_model::id::Token;
use mpwatch_model::unit::Micros;

use super::*;

/// The tokens of the client and of the server.
const TOKENS: [u32; 2] = [0x11, 0x22];

/// The reports of the application and of the kernel on this connection.
fn reported(ours: &Connection, token: u32) -> ConnectionReport {
    let bytes = |bytes: Option<Bytes>| bytes.unwrap().0;
    let subflows = ours.subflows.iter().map(|subflow| SubflowInfo {
        id: None,
        local: subflow.local,
        remote: subflow.remote,
        tcp: TcpInfo {
            bytes_sent: subflow.bytes_sent.0,
            bytes_retrans: subflow.bytes_retransmitted.0,
            total_retrans: subflow.segments_retransmitted,
            ..TcpInfo::default()
        },
    });
    let mptcp = MptcpInfo {
        token,
        bytes_sent: ours.bytes_sent.map(|bytes| bytes.0),
        bytes_received: ours.bytes_received.map(|bytes| bytes.0),
        bytes_retrans: ours.mptcp_bytes_retransmitted.map(|bytes| bytes.0),
        ..MptcpInfo::default()
    };
    ConnectionReport {
        local: ours.local.unwrap(),
        remote: ours.remote.unwrap(),
        sent: bytes(ours.bytes_sent),
        received: bytes(ours.bytes_received),
        sent_hash: 7,
        received_hash: 7,
        exchanges: 10,
        connect_time: Duration::ZERO,
        open_time: Duration::ZERO,
        transfer_time: Duration::from_millis(101),
        receive_time: Duration::from_millis(100),
        reset: false,
        socket_info: Some(SocketInfo { mptcp: Some(mptcp), subflows: subflows.collect() }),
        error: None,
    }
}

fn agreement() -> Measurements {
    let connection = |netns: &str, [own, of_peer]: [u32; 2]| {
        let mut connection = fixture::connection(own, 2);
        connection.netns = netns.to_owned();
        connection.remote_token = Some(Token(of_peer));
        connection.bytes_received = connection.bytes_sent;
        for (subflow, rtt) in connection.subflows.iter_mut().zip([10_000, 20_000]) {
            subflow.rtt_min = Some(Micros(rtt + 100));
            subflow.rtt_p50 = Some(Micros(rtt + 200));
        }
        connection
    };
    let [own, of_peer] = TOKENS;
    let (client, server) = (connection("c", [own, of_peer]), connection("s", [of_peer, own]));
    let mib = |names: [&str; 2]| names.iter().map(|name| ((*name).to_owned(), 1)).collect();
    let end = |name, netns: &str, ours, token, names| TransferEnd {
        name,
        netns: netns.to_owned(),
        traffic: reported(ours, token),
        mib: mib(names),
    };
    let path = |index: usize, rtt| BuiltPath {
        client: client.subflows[index].local.ip(),
        rtt: Duration::from_millis(rtt),
    };
    let mut report = fixture::report(vec![client.clone(), server.clone()]);
    report.losses = Losses::default();
    Measurements {
        idle: fixture::snapshot(vec![client.clone(), server.clone()]),
        report,
        ends: [
            end("client", "c", &client, own, ["MPTcpExtMPCapableSYNACKRX", "MPTcpExtMPJoinSynAckRx"]),
            end("server", "s", &server, of_peer, ["MPTcpExtMPCapableACKRX", "MPTcpExtMPJoinAckRx"]),
        ],
        requests: reported(&client, own),
        paths: vec![path(0, 10), path(1, 20)],
        wire_bytes: client.subflows.iter().map(|subflow| subflow.wire_bytes_sent_estimate.0).sum(),
    }
}

fn failures(measured: &Measurements) -> Vec<String> {
    let failed = all(measured).into_iter().filter(|check| !check.ok);
    failed.map(|check| serde_json::to_value(check).unwrap()["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn equal_numbers_pass_every_check() {
    let measured = agreement();
    assert_eq!(failures(&measured), Vec::<String>::new());
    assert!(all(&measured).len() > 25);
}

/// Changes one number of one source, and names the checks that must fail.
type Break = (fn(&mut Measurements), &'static [&'static str]);

#[test]
fn every_wrong_number_fails_its_checks() {
    let breaks: &[Break] = &[
        (|e| e.ends[1].traffic.received_hash = 8, &["hash of the stream"]),
        (
            |e| e.report.connections[0].bytes_sent = Some(Bytes(1)),
            &["client: bytes sent", "client: bytes sent"],
        ),
        (
            |e| e.report.connections[1].bytes_received = None,
            &["server: bytes received", "server: bytes received"],
        ),
        (|e| e.report.connections[1].token = Some(Token(3)), &["server: tokens, own/peer's"]),
        (|e| e.report.connections[0].subflows[1].bytes_sent.0 += 1, &["client: subflow 2: bytes sent"]),
        (
            |e| e.report.connections[1].subflows[0].bytes_retransmitted.0 += 1,
            &["server: subflow 1: bytes retransmitted"],
        ),
        (
            |e| e.idle.connections[0].subflows[0].segments_retransmitted += 1,
            &["client: subflow 1: segments retransmitted"],
        ),
        (|e| e.wire_bytes = e.wire_bytes / 100 * 97, &["client: wire bytes (estimate)"]),
        (
            |e| e.report.connections[0].subflows[1].rtt_min = Some(Micros(17_000)),
            &["path 2: lowest RTT in us"],
        ),
        (|e| e.report.connections[0].subflows[0].rtt_p50 = None, &["path 1: median RTT in us, idle"]),
        (
            |e| e.report.connections[0].subflows[0].rtt_p50 = Some(Micros(12_000)),
            &["path 1: median RTT in us, idle"],
        ),
        (|e| e.ends[0].mib.clear(), &["client: MPTCP connections", "client: joins"]),
        (|e| e.report.losses.records_lost = 1, &["losses"]),
    ];
    for (number, (break_it, expected)) in breaks.iter().enumerate() {
        let mut measured = agreement();
        break_it(&mut measured);
        assert_eq!(failures(&measured), *expected, "break {number}");
    }
}

#[test]
fn a_missing_subflow_or_connection_fails() {
    let mut measured = agreement();
    measured.report.connections[0].subflows.pop();
    let failed = failures(&measured);
    assert!(failed.contains(&"client: subflows".to_owned()), "{failed:?}");
    assert!(failed.contains(&"client: joins".to_owned()), "{failed:?}");
    measured.report.connections.clear();
    let failed = failures(&measured);
    assert!(failed.contains(&"server: the connection is known".to_owned()), "{failed:?}");
}

#[test]
fn values_that_an_older_kernel_lacks_are_not_compared() {
    let mut measured = agreement();
    let mptcp = measured.ends[0].traffic.socket_info.as_mut().unwrap().mptcp.as_mut().unwrap();
    (mptcp.bytes_sent, mptcp.bytes_received, mptcp.bytes_retrans) = (None, None, None);
    let fewer = all(&measured).len();
    assert_eq!((failures(&measured).len(), fewer), (0, all(&agreement()).len() - 3));
}
