// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hundreds of clients of the daemon's socket and web server that send garbage, are idle, or never read. The daemon closes their
//! connections, continues to trace, and serves all other clients.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
#[allow(dead_code, reason = "only some targets use all of it")]
mod service;

use std::io::{Read as _, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_tests::may_run_as_root;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use service::{Daemon, DaemonDir, TIMEOUT};

/// Number of idle clients of the socket, and of the web server.
const IDLE_CLIENTS: usize = 1_000;
/// Bytes of garbage that a client tries to send.
const GARBAGE: usize = 100_000_000;
/// Timeout of a client's writes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

fn raise_open_file_limit() {
    let (_, max) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, max.min(16_384), max).unwrap();
}

/// Asserts that other clients are served and that tracing continues.
#[track_caller]
fn assert_serves_others(daemon_dir: &DaemonDir, daemon: &Daemon, while_what: &str) {
    assert_eq!(daemon.get("/healthz").0, "HTTP/1.1 200 OK", "{while_what}");
    assert_eq!(daemon.get("/readyz").0, "HTTP/1.1 200 OK", "{while_what}");
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |now| now > ticks + 2.0);
    // A client that does not read is disconnected as soon as the daemon notices it.
    let listed = poll_until("a free slot at the socket", WRITE_TIMEOUT * 10, || {
        Some(daemon_dir.run_attached(&["ls", "--json"])).filter(|listed| listed.code == Some(0))
    });
    listed
        .unwrap_or_else(|error| panic!("{while_what}: {error}: {}", daemon_dir.run_attached(&["ls"]).stderr));
}

/// Sends up to `max` bytes. Returns the number of accepted bytes.
fn send(mut stream: impl Write, max: usize) -> usize {
    let chunk = vec![0xa5_u8; 65_536];
    let mut sent = 0;
    while sent < max {
        match stream.write(&chunk[..chunk.len().min(max - sent)]) {
            Ok(0) | Err(_) => break,
            Ok(length) => sent += length,
        }
    }
    sent
}

#[test]
fn a_hundred_megabytes_of_garbage_are_not_stored() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&[]);
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |ticks| ticks > 5.0);
    let before = daemon.memory();
    let http = TcpStream::connect(daemon.address()).unwrap();
    http.set_write_timeout(Some(WRITE_TIMEOUT)).unwrap();
    let head = TcpStream::connect(daemon.address()).unwrap();
    head.set_write_timeout(Some(WRITE_TIMEOUT)).unwrap();
    (&head).write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
    let body = TcpStream::connect(daemon.address()).unwrap();
    body.set_write_timeout(Some(WRITE_TIMEOUT)).unwrap();
    (&body).write_all(b"POST /metrics HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 100000000\r\n\r\n").unwrap();
    for (what, stream) in [("no request", &http), ("a head without an end", &head), ("a body", &body)] {
        let sent = send(stream, GARBAGE);
        assert!(sent < GARBAGE, "{what}: all bytes were accepted");
        println!("{what}: disconnected after {sent} bytes");
    }
    let socket = UnixStream::connect(daemon_dir.socket()).unwrap();
    socket.set_write_timeout(Some(WRITE_TIMEOUT)).unwrap();
    let sent = send(&socket, GARBAGE);
    println!("socket: {sent} bytes were accepted");
    assert!(sent < 10_000_000, "{sent} bytes of garbage are in socket buffers");
    assert_serves_others(&daemon_dir, &daemon, "garbage");
    let after = daemon.memory();
    assert!(after < before + 20_000, "{before} kB, then {after}");
}

#[test]
fn a_thousand_idle_clients_do_not_block_others() {
    if !may_run_as_root() {
        return;
    }
    raise_open_file_limit();
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&[]);
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |ticks| ticks > 5.0);
    let before = daemon.memory();
    let web: Vec<TcpStream> =
        (0..IDLE_CLIENTS).map(|_| TcpStream::connect(daemon.address()).unwrap()).collect();
    assert_serves_others(&daemon_dir, &daemon, "idle on the web server");
    let socket: Vec<UnixStream> =
        (0..IDLE_CLIENTS).filter_map(|_| UnixStream::connect(daemon_dir.socket()).ok()).collect();
    assert!(socket.len() > IDLE_CLIENTS / 2, "{}", socket.len());
    assert_serves_others(&daemon_dir, &daemon, "idle on socket and web server");
    let after = daemon.memory();
    println!("{before} kB before, {after} kB with {} and {} idle clients", web.len(), socket.len());
    assert!(after < before + 40_000, "{before} kB, then {after}");
    drop((web, socket));
    daemon.wait_for_metric("mpwatch_agent_socket_readers", |readers| readers < 0.5);
}

#[test]
fn slow_senders_and_readers_delay_only_themselves() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&["--metrics.top-flows", "400"]);
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |ticks| ticks > 5.0);
    // Each client sends one byte of its request headers at a time.
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(daemon.address()).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ").unwrap();
            stream
        })
        .collect();
    for _ in 0..10 {
        for mut stream in &slow {
            let _ = stream.write(b"a");
        }
        assert_serves_others(&daemon_dir, &daemon, "slow heads");
    }
    // Each client requests all metrics a thousand times and reads no response.
    let greedy: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(daemon.address()).unwrap();
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000).as_bytes());
            stream
        })
        .collect();
    assert_serves_others(&daemon_dir, &daemon, "greedy");
    // A client closes its sending side after the request.
    let mut half = TcpStream::connect(daemon.address()).unwrap();
    half.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    // There may be no response, if the server notices the end of the stream first.
    let _ = half.read(&mut [0; 10]);
    drop(half);
    assert_serves_others(&daemon_dir, &daemon, "half");
    // The server has disconnected the slow clients.
    let mut first = &slow[0];
    first.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap_or(0), 0);
    drop(greedy);
}
