// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that mpwatch reports without BPF programs at every send, receive and scheduler round: owners of short connections, and the time
//! when an idle application began to wait.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpwatch_lab::topology::{JoinBy, LinkSpec, PathFailure, PathSpec, TopologySpec};
use mpwatch_lab::traffic::Workload;
use mpwatch_lab::{Topology, join};
use mpwatch_tests::{Observer, emulation, lines, list, may_run_as_root, number, program, text, wait};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

const TIMEOUT: Duration = Duration::from_secs(30);
const REQUEST: [u8; 200] = [7; 200];
/// Pause of the application between two exchanges, longer than the shortest reported stall (100 ms).
const THINKING: Duration = Duration::from_millis(300);
const OUTAGE: Duration = Duration::from_millis(700);
/// Allowed difference between the reported stall and the application's stall.
const TOLERANCE: Duration = Duration::from_millis(60);

fn lab() -> Topology {
    let link = LinkSpec::rate(50.0, Duration::from_millis(50)).rtt(Duration::from_millis(5));
    let paths = vec![PathSpec { link, ..PathSpec::default() }; 2];
    let join = JoinBy::ClientSubflow;
    Topology::build(&TopologySpec { paths, join, quick_timeouts: true, ..TopologySpec::default() }).unwrap()
}

fn address(lab: &Topology) -> SocketAddr {
    lab.traffic(Workload::upload(1)).unwrap().server
}

fn stream(protocol: Protocol) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    socket.set_read_timeout(Some(emulation::timeout(TIMEOUT))).unwrap();
    socket
}

/// Accepts this many connections, one after the other, and answers each request with itself.
fn serve(lab: &Topology, protocol: Protocol, connections: usize) -> JoinHandle<mpwatch_lab::Result<()>> {
    let server = address(lab);
    let listener = lab.server().enter(|| {
        let listener = stream(protocol);
        listener.set_reuse_address(true).unwrap();
        listener.bind(&server.into()).unwrap();
        listener.listen(64).unwrap();
        listener
    });
    let listener = listener.unwrap();
    let answer = move || {
        for _ in 0..connections {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = REQUEST;
            while socket.read_exact(&mut request).is_ok() && socket.write_all(&request).is_ok() {}
        }
        Ok(())
    };
    lab.server().spawn("server", answer).unwrap()
}

fn exchange(socket: &mut Socket) {
    let mut answer = [0; REQUEST.len()];
    socket.write_all(&REQUEST).unwrap();
    socket.read_exact(&mut answer).unwrap();
}

#[test]
fn owners_of_short_connections_are_known_without_the_ledger() {
    const COUNT: usize = 20;
    for protocol in [Protocol::MPTCP, Protocol::TCP] {
        if !may_run_as_root() {
            return;
        }
        let lab = lab();
        let observer = Observer::start_complete(&["--ledger", "off", "--tcp"]);
        let server = serve(&lab, protocol, COUNT);
        lab.client()
            .enter(|| {
                for _ in 0..COUNT {
                    let mut socket = stream(protocol);
                    socket.connect(&address(&lab).into()).unwrap();
                    exchange(&mut socket);
                }
            })
            .unwrap();
        join(server).unwrap();
        let report = observer.finish_after_close(&lab);
        for namespace in [lab.client(), lab.server()] {
            let connections = report.connections_in(namespace.name());
            assert_eq!(connections.len(), COUNT);
            for connection in connections {
                let process = &connection["process"];
                assert!(process.is_object(), "{connection:#}");
                assert_eq!(number(process, "pid"), u64::from(std::process::id()), "{connection:#}");
            }
        }
    }
}

/// The process has not closed the connection, so only its open files show the owner.
#[test]
fn the_owner_of_an_open_accepted_connection_is_found() {
    const SNAPSHOTS: &str = "50";
    if !may_run_as_root() {
        return;
    }
    let lab = lab();
    let mut command = Command::new(program());
    command.args(["top", "--batch", "--json", "--interval", "100ms", "-n", SNAPSHOTS, "--ledger", "off"]);
    let mut observer = command.stdout(Stdio::piped()).spawn().unwrap();
    let snapshots = lines(observer.stdout.take().unwrap());
    snapshots.recv_timeout(TIMEOUT).expect("mpwatch traces");
    let server = serve(&lab, Protocol::MPTCP, 1);
    let socket = lab.client().enter(|| {
        let mut socket = stream(Protocol::MPTCP);
        socket.connect(&address(&lab).into()).unwrap();
        exchange(&mut socket);
        socket
    });
    let is_found = std::iter::from_fn(|| snapshots.recv_timeout(TIMEOUT).ok()).any(|line| {
        let snapshot: Value = serde_json::from_str(&line).unwrap();
        let mut here = list(&snapshot, "connections")
            .iter()
            .filter(|connection| connection["netns"] == lab.server().name());
        here.any(|connection| connection["process"]["pid"] == std::process::id())
    });
    drop(socket);
    join(server).unwrap();
    observer.kill().unwrap();
    wait(&mut observer);
    assert!(is_found, "no owner in {SNAPSHOTS} snapshots");
}

/// Without a BPF program at the scheduler, the time when the application was idle must neither count as a stall nor hide a stall.
#[test]
fn an_outage_after_idle_time_begins_when_data_was_sent() {
    for arguments in [&["--ledger", "off"][..], &[]] {
        if !may_run_as_root() {
            return;
        }
        let lab = lab();
        let observer = Observer::start_complete(arguments);
        let server = serve(&lab, Protocol::MPTCP, 1);
        let paths = [lab.path(0).unwrap(), lab.path(1).unwrap()];
        let outage = lab.client().enter(|| {
            let mut socket = stream(Protocol::MPTCP);
            socket.connect(&address(&lab).into()).unwrap();
            for _ in 0..5 {
                exchange(&mut socket);
                thread::sleep(THINKING);
            }
            for path in &paths {
                path.fail(PathFailure::Blackhole).unwrap();
            }
            let outage = Instant::now();
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(OUTAGE);
                    for path in &paths {
                        path.restore().unwrap();
                    }
                });
                exchange(&mut socket);
            });
            let outage = outage.elapsed();
            for _ in 0..3 {
                thread::sleep(THINKING);
                exchange(&mut socket);
            }
            outage
        });
        let outage = outage.unwrap();
        join(server).unwrap();
        let report = observer.finish_after_close(&lab);
        let [client, server] = [lab.client(), lab.server()].map(|end| report.only_connection_in(end.name()));
        let stalls = stalls(client);
        let [stall] = stalls[..] else { panic!("one stall of {outage:?}, not {stalls:?}: {client:#}") };
        println!("reported stall {stall:?}, of the application {outage:?}");
        assert!(stall.abs_diff(outage) <= emulation::timeout(TOLERANCE), "{stall:?} instead of {outage:?}");
        assert!(self::stalls(server).is_empty(), "{server:#}");
    }
}

/// Stalls that last at least as long as the pause. A slow machine may cause shorter stalls.
fn stalls(connection: &Value) -> Vec<Duration> {
    let stalled = list(connection, "timeline").iter().filter(|entry| text(entry, "event") == "stalled");
    let gaps = stalled.map(|entry| Duration::from_micros(number(entry, "gap_us")));
    gaps.filter(|gap| *gap >= THINKING).collect()
}
