// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections with one known limit: almost all time of a subflow belongs to that limit, and the kernel's `TCP_INFO` has the same times.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Transport, Workload};
use mpwatch_lab::{SocketInfo, TcpInfo, Topology};
use mpwatch_tests::{Observer, list, may_run_as_root, number, text};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

/// Length of the part of a connection that has one limit.
const TIME: Duration = Duration::from_millis(2_500);
/// Part of the time that a known limit must have.
const MIN_PART: f64 = 0.9;
/// Maximum difference between two readings of the kernel's clocks, in seconds, without the time of the close.
const PRECISION: f64 = 0.1;

/// A connection, and its traffic, which has one limit.
#[derive(Clone, Copy)]
struct Case {
    transport: Transport,
    paths: usize,
    link: LinkSpec,
    /// Bytes of the client's send buffer and of the server's receive buffer. `None`: the kernel chooses.
    buffers: [Option<usize>; 2],
    traffic: fn(&mut Ends),
}

/// Both ends of a connection in this process.
struct Ends {
    client: Socket,
    server: Socket,
    // Joins need the listener.
    _listener: Socket,
}

/// The parts of the time of the client's subflows, in the order of [`NAMES`], after a comparison of each subflow with the kernel.
fn parts_of(case: Case) -> Option<[f64; 4]> {
    if !may_run_as_root() {
        return None;
    }
    let observer = Observer::start(if case.transport == Transport::Tcp { &["--tcp"] } else { &[] });
    let paths = vec![PathSpec { link: case.link, ..PathSpec::default() }; case.paths];
    let lab = Topology::build(&TopologySpec { paths, ..TopologySpec::default() }).unwrap();
    let mut ends = open(&lab, case);
    (case.traffic)(&mut ends);
    let kernel = SocketInfo::read(&ends.client).unwrap().subflows;
    drop(ends);
    let report = observer.finish_after_close(&lab);
    let subflows = list(report.only_connection_in(lab.client().name()), "subflows");
    assert_eq!((subflows.len(), kernel.len()), (case.paths, case.paths));
    for subflow in subflows {
        let same = kernel.iter().find(|info| info.local.to_string() == text(subflow, "local")).unwrap();
        // The close sends two FINs, one after the other.
        let close = 4.0 * case.link.forward_impairment.delay.as_secs_f64();
        // If the window of an MPTCP connection is closed, mpwatch counts more than the clocks of its subflows.
        let may_close = case.paths > 1 || case.buffers[1].is_some();
        if case.transport == Transport::Tcp || !may_close {
            assert_same_clocks(subflow, &same.tcp, PRECISION + close);
        }
        println!("{:?} {:.3?}", case.transport, parts(std::slice::from_ref(subflow)));
    }
    Some(parts(subflows))
}

const NAMES: [&str; 4] = ["application", "network", "receive window", "send buffer"];

/// The parts of the time of subflows, from the fields that mpwatch exports.
fn parts(subflows: &[Value]) -> [f64; 4] {
    let sum = |read: &dyn Fn(&Value) -> u64| subflows.iter().map(read).sum::<u64>() as f64;
    let life = sum(&|subflow| number(&subflow["observed"], "duration_ns"));
    let [busy, window, buffer] = ["total", "receive_window", "send_buffer"]
        .map(|part| sum(&|subflow| number(&subflow["busy_ns"], part)));
    [life - busy, busy - window - buffer, window, buffer].map(|time| time / life)
}

fn assert_same_clocks(subflow: &Value, kernel: &TcpInfo, precision: f64) {
    let clocks = [
        ("total", kernel.busy_us),
        ("receive_window", kernel.rwnd_limited_us),
        ("send_buffer", kernel.sndbuf_limited_us),
    ];
    for (part, micros) in clocks {
        let (ours, theirs) = (number(&subflow["busy_ns"], part) as f64 / 1e9, micros as f64 / 1e6);
        assert!((ours - theirs).abs() <= precision, "{part}: {ours} s, TCP_INFO {theirs} s");
    }
}

/// Checks that almost all of the time has one limit.
fn assert_limit(limit: &str, case: Case) {
    let Some(parts) = parts_of(case) else { return };
    let index = NAMES.iter().position(|name| *name == limit).unwrap();
    assert!(parts[index] >= MIN_PART, "{limit}: {NAMES:?} {parts:?}");
}

fn open(lab: &Topology, case: Case) -> Ends {
    let [send_buffer, receive_buffer] = case.buffers;
    let address = lab.traffic(Workload::upload(1)).unwrap().server;
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    let protocol = if case.transport == Transport::Tcp { Protocol::TCP } else { Protocol::MPTCP };
    let stream = || Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    let listener = lab.server().enter(|| {
        let listener = stream();
        if let Some(bytes) = receive_buffer {
            listener.set_recv_buffer_size(bytes).unwrap();
        }
        listener.bind(&any.into()).unwrap();
        listener.listen(1).unwrap();
        listener
    });
    let client = lab.client().enter(|| {
        let client = stream();
        if let Some(bytes) = send_buffer {
            client.set_send_buffer_size(bytes).unwrap();
        }
        client.connect(&address.into()).unwrap();
        client
    });
    let (listener, client) = (listener.unwrap(), client.unwrap());
    let (server, _) = listener.accept().unwrap();
    Ends { client, server, _listener: listener }
}

/// The client writes as fast as it can, and the server reads as fast as it can.
fn upload(ends: &mut Ends) {
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            while ends.server.read(&mut buffer).unwrap() > 0 {}
        });
        while start.elapsed() < TIME {
            ends.client.write_all(&[7; 1 << 14]).unwrap();
        }
        ends.client.shutdown(std::net::Shutdown::Write).unwrap();
    });
}

/// The client sends a little and pauses.
fn pause(ends: &mut Ends) {
    for _ in 0..20 {
        ends.client.write_all(&[7; 500]).unwrap();
        ends.server.read_exact(&mut [0; 500]).unwrap();
        thread::sleep(TIME / 20);
    }
}

/// The client has much to send, and the server does not read.
fn unread(ends: &mut Ends) {
    ends.client.set_nonblocking(true).unwrap();
    let start = Instant::now();
    while start.elapsed() < TIME {
        if ends.client.write(&[7; 1 << 14]).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The client has much to send, and the server reads slowly.
fn read_slowly(ends: &mut Ends) {
    ends.client.set_nonblocking(true).unwrap();
    let start = Instant::now();
    while start.elapsed() < TIME {
        while ends.client.write(&[7; 1 << 14]).is_ok() {}
        let _ = ends.server.read(&mut [0; 1 << 12]).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
}

/// An MPTCP connection over one path without limits.
fn case(traffic: fn(&mut Ends)) -> Case {
    Case { transport: Transport::Mptcp, paths: 1, link: LinkSpec::default(), buffers: [None; 2], traffic }
}

#[test]
fn a_shaped_link_is_the_network() {
    let link = LinkSpec::rate(20.0, Duration::from_millis(50)).rtt(Duration::from_millis(20));
    let case = Case { link, ..case(upload) };
    assert_limit("network", case);
    assert_limit("network", Case { transport: Transport::Tcp, ..case });
    // One of two subflows also waits for data of the blocked writer, and for the window while it grows.
    let Some([application, network, ..]) = parts_of(Case { paths: 2, ..case }) else { return };
    assert!(application < 1.0 - MIN_PART && network > 0.5, "{application} {network}");
}

#[test]
fn pauses_of_a_client_are_the_application() {
    assert_limit("application", Case { paths: 2, ..case(pause) });
    assert_limit("application", Case { transport: Transport::Tcp, ..case(pause) });
}

#[test]
fn a_reader_that_stops_is_the_receive_window() {
    let case = Case { buffers: [None, Some(1 << 15)], ..case(unread) };
    assert_limit("receive window", case);
    assert_limit("receive window", Case { transport: Transport::Tcp, ..case });
}

/// MPTCP passes no data to its subflows while the window of the connection is closed, so the kernel's clocks of subflows stop.
#[test]
fn a_slow_reader_is_the_receive_window() {
    let case = Case { buffers: [None, Some(1 << 15)], ..case(read_slowly) };
    assert_limit("receive window", Case { transport: Transport::Tcp, ..case });
    assert_limit("receive window", Case { paths: 2, ..case });
}

/// The kernel's clock of the send buffer stops with each ACK, and starts only with a transmission that empties the queue of a blocked writer. Until
/// then, the time counts for the network: all of it on slow machines.
#[test]
fn a_small_send_buffer_on_a_long_path_is_the_send_buffer_or_the_network() {
    let link = LinkSpec::default().rtt(Duration::from_millis(100));
    let case = Case { link, buffers: [Some(1 << 14), None], ..case(upload) };
    for transport in [Transport::Tcp, Transport::Mptcp] {
        let Some([_, network, _, buffer]) = parts_of(Case { transport, ..case }) else { return };
        assert!(network + buffer >= MIN_PART, "{network} {buffer}");
    }
}
