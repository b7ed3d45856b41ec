// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assignment of records to connections, and byte counts, in cases that are rare in real traffic: refused joins, connections that are not
//! accepted, sockets that are connected again, TCP Fast Open, and a full queue on the sending host.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::time::Duration;

use mpwatch_lab::endpoint::{self, Limits};
use mpwatch_lab::link::{self, InterfaceCounters, QueueCounters, RateLimit};
use mpwatch_lab::topology::{JoinBy, LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{self, Workload};
use mpwatch_lab::{SocketInfo, Topology, join, mib, poll_until};
use mpwatch_tests::{Observer, emulation, list, may_run_as_root, number, text};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

const TIMEOUT: Duration = Duration::from_secs(30);
const PAYLOAD: [u8; 200] = [7; 200];
/// Maximum wait for a join and its refusal.
const JOIN_DEADLINE: Duration = Duration::from_secs(10);

fn lab(join_by: JoinBy) -> Topology {
    let path = || PathSpec {
        link: LinkSpec::rate(50.0, Duration::from_millis(50)).rtt(Duration::from_millis(5)),
        ..PathSpec::default()
    };
    let paths = vec![path(), path()];
    Topology::build(&TopologySpec { paths, join: join_by, quick_timeouts: true, ..TopologySpec::default() })
        .unwrap()
}

fn only_one_subflow(lab: &Topology) {
    for namespace in [lab.client(), lab.server()] {
        endpoint::set_limits(namespace, Limits { subflows: 0, add_addr_accepted: 0 }).unwrap();
    }
}

fn stream(protocol: Protocol) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    socket.set_read_timeout(Some(emulation::timeout(TIMEOUT))).unwrap();
    socket
}

fn listen(protocol: Protocol, server: SocketAddr) -> Socket {
    let listener = stream(protocol);
    listener.set_reuse_address(true).unwrap();
    listener.bind(&SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), server.port()).into()).unwrap();
    listener.listen(64).unwrap();
    listener
}

/// Accepts this many connections one after the other. Reads each to its end and then closes it, or closes it first after some bytes.
fn serve(
    lab: &Topology,
    protocol: Protocol,
    count: usize,
    closes_first: bool,
) -> impl FnOnce() -> Vec<usize> + use<> {
    let server = address(lab);
    let listener = lab.server().enter(|| listen(protocol, server)).unwrap();
    let accept = move || -> mpwatch_lab::Result<Vec<usize>> {
        Ok((0..count)
            .map(|_| {
                let (mut socket, _) = listener.accept().unwrap();
                let (mut received, mut buffer) = (0, [0; 8_192]);
                while let Ok(bytes @ 1..) = socket.read(&mut buffer) {
                    received += bytes;
                    if closes_first {
                        socket.shutdown(Shutdown::Both).unwrap();
                    }
                }
                received
            })
            .collect())
    };
    let thread = lab.server().spawn("server", accept).unwrap();
    || join(thread).unwrap()
}

fn address(lab: &Topology) -> SocketAddr {
    lab.traffic(Workload::upload(1)).unwrap().server
}

/// Sends the payload once over this socket, closes in order, and disconnects the socket so that it can be connected again.
fn send_and_disconnect(socket: &mut Socket, server: SocketAddr) {
    socket.connect(&server.into()).unwrap();
    socket.write_all(&PAYLOAD).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let _ = socket.read(&mut [0; 16]);
    rustix::net::connect_unspec(&socket).unwrap();
}

fn ids(connections: &[&Value]) -> BTreeSet<String> {
    connections.iter().map(|connection| text(connection, "id").to_owned()).collect()
}

/// Whether the client has sent the SYN of a join, and the server a reset. Kernels before 6.13 count that SYN only as an active open, like
/// the first SYN.
fn was_refused(lab: &Topology) -> bool {
    let [client, server] = [lab.client(), lab.server()].map(|end| mib::read(end).unwrap());
    let joins = client.get("MPTcpExtMPJoinSynTx").copied();
    let joins = joins.unwrap_or_else(|| client["TcpActiveOpens"].saturating_sub(1));
    joins >= 1 && server["TcpOutRsts"] >= 1
}

#[test]
fn a_refused_join_is_not_initial_and_lends_no_address_to_its_connection() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ServerSignal);
    endpoint::set_limits(lab.server(), Limits { subflows: 0, add_addr_accepted: 0 }).unwrap();
    let observer = Observer::start(&[]);
    let server = serve(&lab, Protocol::MPTCP, 1, false);
    let sent_by_subflows = lab
        .client()
        .enter(|| {
            let mut socket = stream(Protocol::MPTCP);
            socket.connect(&address(&lab).into()).unwrap();
            // The address is announced after the first payload has arrived.
            socket.write_all(&PAYLOAD).unwrap();
            poll_until("the refused join", JOIN_DEADLINE, || was_refused(&lab).then_some(())).unwrap();
            socket.write_all(&PAYLOAD).unwrap();
            poll_until("the last acknowledgment", emulation::timeout(TIMEOUT), || {
                let info = SocketInfo::read(&socket).unwrap();
                info.all_acknowledged().then(|| info.unique_subflow_bytes())
            })
            .unwrap()
        })
        .unwrap();
    assert_eq!(server(), [2 * PAYLOAD.len()]);
    let report = observer.finish_after_close(&lab);
    let connection = report.only_connection_in(lab.client().name());
    let subflows = list(connection, "subflows");
    assert!(subflows.len() > 1, "the join was tried: {connection:#}");
    assert_eq!(text(connection, "remote"), address(&lab).to_string());
    assert_eq!(text(connection, "local"), text(&subflows[0], "local"));
    for (index, subflow) in subflows.iter().enumerate() {
        assert_eq!(subflow["initial"], Value::from(index == 0), "{connection:#}");
    }
    assert!(connection["jain_index"].is_null(), "only one subflow carried data: {connection:#}");
    // When the refused subflow is closed, the kernel retransmits all data without a DATA_ACK, also over the only subflow.
    assert_eq!(number(connection, "bytes_reinjected"), sent_by_subflows - 2 * PAYLOAD.len() as u64);
}

/// The client resets a join if a middlebox removes MPTCP's option from the SYN or from its answer. A server that accepts no more subflows
/// resets it after the handshake of TCP.
#[test]
fn a_join_that_does_not_succeed_is_not_a_failed_path() {
    for (expected, removed_at_server) in
        [("option_removed", Some(true)), ("option_removed", Some(false)), ("refused", None)]
    {
        if !may_run_as_root() {
            return;
        }
        let lab = lab(JoinBy::ClientSubflow);
        let path = lab.path(1).unwrap();
        let (end, interface) = match removed_at_server {
            Some(false) => (lab.client(), path.client_interface()),
            _ => (lab.server(), path.server_interface()),
        };
        if removed_at_server.is_some() {
            let chain = "add table ip t; add chain ip t c { type filter hook prerouting priority 0; };";
            let rule = format!("add rule ip t c iifname {interface} reset tcp option mptcp");
            end.nft(&format!("{chain} {rule}")).unwrap();
        } else {
            endpoint::set_limits(end, Limits { subflows: 0, add_addr_accepted: 0 }).unwrap();
        }
        let observer = Observer::start(&[]);
        let server = serve(&lab, Protocol::MPTCP, 1, false);
        lab.client()
            .enter(|| {
                let mut socket = stream(Protocol::MPTCP);
                socket.connect(&address(&lab).into()).unwrap();
                socket.write_all(&PAYLOAD).unwrap();
                let resets = |end| mib::read(end).unwrap()["TcpOutRsts"];
                let is_reset = || (resets(lab.client()) + resets(lab.server()) >= 1).then_some(());
                poll_until("the join and its reset", JOIN_DEADLINE, is_reset).unwrap();
            })
            .unwrap();
        assert_eq!(server(), [PAYLOAD.len()]);
        let report = observer.finish_after_close(&lab);
        let connection = report.only_connection_in(lab.client().name());
        let subflows = list(connection, "subflows").iter();
        let ends: Vec<_> =
            subflows.map(|of| (text(&of["closed"], "reason"), number(of, "path_failures"))).collect();
        assert_eq!(ends, [("fin", 0), (expected, 0)], "{connection:#}");
        assert!(connection["second_path"].is_null(), "{connection:#}");
    }
}

/// The client sends the packets of its initial subflow over the second path. The server answers them over the first path.
#[test]
fn received_payload_belongs_to_the_interface_through_which_it_arrived() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::disjoint(&[LinkSpec::default(); 2]).unwrap();
    let [first, second] = [0, 1].map(|number| lab.path(number).unwrap());
    first.reroute_over(&second).unwrap();
    let received = |interface: &str| InterfaceCounters::read(lab.server(), interface).unwrap().rx_bytes;
    let before = received(first.server_interface());
    let observer = Observer::start(&[]);
    traffic::run(lab.client(), lab.server(), &lab.traffic(Workload::upload(12_000_000)).unwrap()).unwrap();
    let on_first = received(first.server_interface()) - before;
    assert!(on_first < 1_000_000, "{on_first} bytes did not take the detour");
    let report = observer.finish_after_close(&lab);
    let connection = report.only_connection_in(lab.server().name());
    let subflows = list(connection, "subflows");
    assert_eq!(subflows.len(), 2, "{connection:#}");
    for (subflow, path) in subflows.iter().zip([first, second]) {
        let interfaces = ["incoming_interface", "interface"].map(|field| text(subflow, field));
        assert_eq!(interfaces, [second.server_interface(), path.server_interface()], "{connection:#}");
    }
    assert!(number(&subflows[0], "bytes_received") > 0, "{connection:#}");
}

#[test]
fn connections_that_the_process_never_accepts_are_whole() {
    const COUNT: usize = 20;
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow);
    only_one_subflow(&lab);
    let observer = Observer::start(&[]);
    let listener = lab.server().enter(|| listen(Protocol::MPTCP, address(&lab))).unwrap();
    let clients: Vec<Socket> = lab
        .client()
        .enter(|| {
            let connect = |_| {
                let mut socket = stream(Protocol::MPTCP);
                socket.connect(&address(&lab).into()).unwrap();
                socket.write_all(&PAYLOAD).unwrap();
                socket
            };
            (0..COUNT).map(connect).collect()
        })
        .unwrap();
    let opened = || mib::read(lab.server()).unwrap().get("TcpPassiveOpens").copied();
    poll_until("the server's handshakes to end", TIMEOUT, || (opened() == Some(COUNT as u64)).then_some(()))
        .unwrap();
    drop(listener);
    drop(clients);
    let report = observer.finish_after_close(&lab);
    for namespace in [lab.client(), lab.server()] {
        let connections = report.connections_in(namespace.name());
        assert_eq!((connections.len(), ids(&connections).len()), (COUNT, COUNT), "{connections:#?}");
        for connection in connections {
            assert!(connection["token"].is_string() && connection["seen_open"] == true, "{connection:#}");
            assert_eq!(list(connection, "subflows").len(), 1, "{connection:#}");
        }
    }
}

#[test]
fn a_tcp_socket_that_is_connected_again_is_another_connection() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow);
    let observer = Observer::start(&["--tcp"]);
    let server = serve(&lab, Protocol::TCP, 4, false);
    lab.client()
        .enter(|| {
            let mut socket = stream(Protocol::TCP);
            (0..4).for_each(|_| send_and_disconnect(&mut socket, address(&lab)));
        })
        .unwrap();
    assert_eq!(server(), [PAYLOAD.len(); 4]);
    let report = observer.finish_after_close(&lab);
    let connections = report.connections_in(lab.client().name());
    assert_eq!((connections.len(), ids(&connections).len()), (4, 4), "{connections:#?}");
    assert!(connections.iter().all(|connection| number(connection, "bytes_sent") == PAYLOAD.len() as u64));
}

#[test]
fn a_fallback_is_reported_although_the_socket_is_connected_again() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow);
    let observer = Observer::start(&[]);
    let server = serve(&lab, Protocol::TCP, 4, false);
    lab.client()
        .enter(|| {
            let mut socket = stream(Protocol::MPTCP);
            (0..4).for_each(|_| send_and_disconnect(&mut socket, address(&lab)));
        })
        .unwrap();
    server();
    let report = observer.finish_after_close(&lab);
    let connections = report.connections_in(lab.client().name());
    assert_eq!((connections.len(), ids(&connections).len()), (4, 4), "{connections:#?}");
    for connection in connections {
        assert_eq!(connection["fallback"]["reason"], "no_mp_capable_in_syn_ack", "{connection:#}");
        assert_eq!(number(connection, "bytes_sent"), PAYLOAD.len() as u64, "{connection:#}");
    }
}

#[test]
fn a_fallback_connection_that_either_end_closes_first_ends_with_a_fin() {
    for server_closes_first in [true, false] {
        if !may_run_as_root() {
            return;
        }
        let lab = lab(JoinBy::ClientSubflow);
        let observer = Observer::start(&[]);
        let server = serve(&lab, Protocol::TCP, 1, server_closes_first);
        lab.client()
            .enter(|| {
                let mut socket = stream(Protocol::MPTCP);
                socket.connect(&address(&lab).into()).unwrap();
                socket.write_all(&PAYLOAD).unwrap();
                if !server_closes_first {
                    socket.shutdown(Shutdown::Write).unwrap();
                }
                assert_eq!(socket.read(&mut [0; 16]).unwrap(), 0, "the server closes");
            })
            .unwrap();
        server();
        let report = observer.finish_after_close(&lab);
        let connection = report.only_connection_in(lab.client().name());
        assert_eq!(connection["subflows"][0]["closed"]["reason"], "fin", "{connection:#}");
    }
}

#[test]
fn payload_in_a_fast_open_syn_is_payload_of_the_connection() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow);
    only_one_subflow(&lab);
    for namespace in [lab.client(), lab.server()] {
        // 0x1: client, 0x2: server, 0x4 and 0x200: without cookies, 0x400: every listener.
        namespace.sysctl("net.ipv4.tcp_fastopen", &(0x1 | 0x2 | 0x4 | 0x200 | 0x400).to_string()).unwrap();
    }
    if !can_send_in_syn(&lab) {
        return eprintln!("nothing to compare: MPTCP sockets of this kernel refuse MSG_FASTOPEN (6.1)");
    }
    let observer = Observer::start(&[]);
    let server = serve(&lab, Protocol::MPTCP, 2, false);
    lab.client()
        .enter(|| {
            for _ in 0..2 {
                let mut socket = stream(Protocol::MPTCP);
                let sent = socket.send_to_with_flags(&PAYLOAD, &address(&lab).into(), libc::MSG_FASTOPEN);
                assert_eq!(sent.unwrap(), PAYLOAD.len());
                socket.write_all(&PAYLOAD).unwrap();
            }
        })
        .unwrap();
    assert_eq!(server(), [2 * PAYLOAD.len(); 2]);
    let report = observer.finish_after_close(&lab);
    for (namespace, field) in [(lab.client(), "bytes_sent"), (lab.server(), "bytes_received")] {
        let connections = report.connections_in(namespace.name());
        assert_eq!(connections.len(), 2);
        for connection in connections {
            assert_eq!(number(connection, field), 2 * PAYLOAD.len() as u64, "{connection:#}");
            assert_eq!(number(connection, "bytes_reinjected"), 0, "{connection:#}");
        }
    }
}

/// Whether MPTCP sockets accept `MSG_FASTOPEN`. No socket listens, so the connection is refused after the SYN has been sent.
fn can_send_in_syn(lab: &Topology) -> bool {
    let outcome = lab.client().enter(|| {
        let socket = stream(Protocol::MPTCP);
        socket.send_to_with_flags(&PAYLOAD, &address(lab).into(), libc::MSG_FASTOPEN)
    });
    outcome.unwrap().err().is_none_or(|error| error.raw_os_error() != Some(libc::EOPNOTSUPP))
}

/// The kernel counts a segment that a queueing discipline refuses as sent, and counts it again when it is sent.
#[test]
fn segments_that_a_full_queue_of_this_host_refuses_were_not_sent() {
    const BYTES: usize = 3_000_000;
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow);
    only_one_subflow(&lab);
    let path = lab.path(0).unwrap();
    let interface = path.client_interface();
    // The limit is on the sender's own interface, as if `tc` had set it on a host.
    let limit = RateLimit::mbit(10.0, Duration::from_millis(1));
    link::limit_rate(lab.client(), interface, limit).unwrap();
    let observer = Observer::start(&[]);
    let before = InterfaceCounters::read(lab.client(), interface).unwrap();
    let server = serve(&lab, Protocol::MPTCP, 1, false);
    lab.client()
        .enter(|| {
            let mut socket = stream(Protocol::MPTCP);
            socket.connect(&address(&lab).into()).unwrap();
            socket.write_all(&vec![1; BYTES]).unwrap();
        })
        .unwrap();
    assert_eq!(server(), [BYTES]);
    let after = InterfaceCounters::read(lab.client(), interface).unwrap();
    let queue = QueueCounters::read(lab.client(), interface).unwrap();
    assert!(queue.drops > 0, "the queue refused nothing");
    let report = observer.finish_after_close(&lab);
    let connection = report.only_connection_in(lab.client().name());
    let on_wire = (after.tx_bytes - before.tx_bytes) as f64;
    let estimate = number(&connection["subflows"][0], "wire_bytes_sent_estimate") as f64;
    assert!((estimate / on_wire - 1.0).abs() < 0.03, "{estimate} instead of {on_wire}: {connection:#}");
    assert_eq!(number(connection, "bytes_sent"), BYTES as u64);
    assert_eq!(number(connection, "bytes_reinjected"), 0, "{connection:#}");
    let [sent, again] =
        ["bytes_sent", "bytes_retransmitted"].map(|field| number(&connection["subflows"][0], field));
    assert_eq!(sent - again, BYTES as u64, "{connection:#}");
}

#[test]
fn connections_of_listeners_that_share_a_port_are_whole() {
    const COUNT: usize = 20;
    if !may_run_as_root() {
        return;
    }
    let lab = lab(JoinBy::ClientSubflow);
    only_one_subflow(&lab);
    let observer = Observer::start(&[]);
    let listeners = lab
        .server()
        .enter(|| {
            [(); 2].map(|()| {
                let listener = stream(Protocol::MPTCP);
                listener.set_reuse_port(true).unwrap();
                let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                listener.bind(&SocketAddr::new(any, address(&lab).port()).into()).unwrap();
                listener.listen(64).unwrap();
                listener.set_nonblocking(true).unwrap();
                listener
            })
        })
        .unwrap();
    let clients = lab.client().enter(|| {
        for _ in 0..COUNT {
            let mut socket = stream(Protocol::MPTCP);
            socket.connect(&address(&lab).into()).unwrap();
            socket.write_all(&PAYLOAD).unwrap();
        }
    });
    clients.unwrap();
    let mut accepted = [0; 2];
    poll_until("all connections", emulation::timeout(TIMEOUT), || {
        for (count, listener) in accepted.iter_mut().zip(&listeners) {
            while let Ok((mut socket, _)) = listener.accept() {
                socket.set_nonblocking(false).unwrap();
                assert_eq!(socket.read_to_end(&mut Vec::new()).unwrap(), PAYLOAD.len());
                *count += 1;
            }
        }
        (accepted.iter().sum::<usize>() == COUNT).then_some(())
    })
    .unwrap();
    assert!(accepted.iter().all(|&count| count > 0), "the kernel spreads connections: {accepted:?}");
    let report = observer.finish_after_close(&lab);
    let remotes = |connections: &[&Value]| -> BTreeSet<String> {
        connections.iter().map(|connection| text(connection, "remote").to_owned()).collect()
    };
    let servers = report.connections_in(lab.server().name());
    assert_eq!((servers.len(), ids(&servers).len(), remotes(&servers).len()), (COUNT, COUNT, COUNT));
    for connection in servers {
        assert_eq!(text(connection, "local"), address(&lab).to_string());
        assert_eq!((&connection["role"], &connection["seen_open"]), (&"server".into(), &true.into()));
        // Kernels before 6.5 do not count the bytes of a connection.
        let bytes = connection["bytes_received"].as_u64();
        assert!(bytes.is_none_or(|bytes| bytes == PAYLOAD.len() as u64), "{connection:#}");
    }
    assert_eq!(report.connections_in(lab.client().name()).len(), COUNT);
}
