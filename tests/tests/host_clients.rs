// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that send garbage, say nothing, stall or never read, by the hundred, on the daemon's socket and its web server: they cost their own
//! connection, and meanwhile the daemon goes on tracing and answers everyone else.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
#[allow(dead_code, reason = "every test needs a part of it")]
mod service;

use std::io::{Read as _, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_tests::may_run_as_root;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use service::{Daemon, PATIENCE, Place};

/// Idle clients on each of the two.
const IDLE: usize = 1_000;
/// What one client sends of nothing.
const GARBAGE: usize = 100_000_000;
/// Longest time in which a client that is let go may not notice.
const PAUSE: Duration = Duration::from_secs(2);

fn more_files() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(16_384), most).unwrap();
}

/// Everyone else is served, and tracing goes on.
#[track_caller]
fn all_is_well(place: &Place, daemon: &Daemon, while_what: &str) {
    assert_eq!(daemon.get("/healthz").0, "HTTP/1.1 200 OK", "{while_what}");
    assert_eq!(daemon.get("/readyz").0, "HTTP/1.1 200 OK", "{while_what}");
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.until("mpwatch_agent_ticks_total", |now| now > ticks + 2.0);
    // Those who do not read give up their places once it shows.
    let listed = poll_until("a place at the socket", PAUSE * 10, || {
        Some(place.attached(&["ls", "--json"])).filter(|listed| listed.code == Some(0))
    });
    listed.unwrap_or_else(|error| panic!("{while_what}: {error}: {}", place.attached(&["ls"]).stderr));
}

/// Sends as much as is taken, up to all of it; how much that was.
fn send(mut stream: impl Write, all: usize) -> usize {
    let chunk = vec![0xa5_u8; 65_536];
    let mut sent = 0;
    while sent < all {
        match stream.write(&chunk[..chunk.len().min(all - sent)]) {
            Ok(0) | Err(_) => break,
            Ok(length) => sent += length,
        }
    }
    sent
}

#[test]
fn a_hundred_megabytes_of_garbage_are_not_kept() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let daemon = place.start(&[]);
    daemon.until("mpwatch_agent_ticks_total", |ticks| ticks > 5.0);
    let before = daemon.memory();
    let http = TcpStream::connect(daemon.address()).unwrap();
    http.set_write_timeout(Some(PAUSE)).unwrap();
    let head = TcpStream::connect(daemon.address()).unwrap();
    head.set_write_timeout(Some(PAUSE)).unwrap();
    (&head).write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
    let body = TcpStream::connect(daemon.address()).unwrap();
    body.set_write_timeout(Some(PAUSE)).unwrap();
    (&body).write_all(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n").unwrap();
    for (what, stream) in [("no request", &http), ("a head without an end", &head), ("a body", &body)] {
        let sent = send(stream, GARBAGE);
        assert!(sent < GARBAGE, "{what}: all of it was taken");
        println!("{what}: let go after {sent} bytes");
    }
    let socket = UnixStream::connect(place.socket()).unwrap();
    socket.set_write_timeout(Some(PAUSE)).unwrap();
    let sent = send(&socket, GARBAGE);
    println!("socket: {sent} bytes were taken");
    assert!(sent < 10_000_000, "{sent} bytes of garbage wait in the kernel");
    all_is_well(&place, &daemon, "garbage");
    let after = daemon.memory();
    assert!(after < before + 20_000, "{before} kB, then {after}");
}

#[test]
fn a_thousand_idle_clients_keep_nobody_out() {
    if !may_run_as_root() {
        return;
    }
    more_files();
    let place = Place::new();
    let daemon = place.start(&[]);
    daemon.until("mpwatch_agent_ticks_total", |ticks| ticks > 5.0);
    let before = daemon.memory();
    let web: Vec<TcpStream> = (0..IDLE).map(|_| TcpStream::connect(daemon.address()).unwrap()).collect();
    all_is_well(&place, &daemon, "idle on the web server");
    let socket: Vec<UnixStream> =
        (0..IDLE).filter_map(|_| UnixStream::connect(place.socket()).ok()).collect();
    assert!(socket.len() > IDLE / 2, "{}", socket.len());
    all_is_well(&place, &daemon, "idle on both");
    let after = daemon.memory();
    println!("{before} kB before, {after} kB with {} and {} idle clients", web.len(), socket.len());
    assert!(after < before + 40_000, "{before} kB, then {after}");
    drop((web, socket));
    daemon.until("mpwatch_agent_socket_readers", |readers| readers < 0.5);
}

#[test]
fn slow_senders_and_readers_hold_up_themselves() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let daemon = place.start(&["--metrics.top-flows", "400"]);
    daemon.until("mpwatch_agent_ticks_total", |ticks| ticks > 5.0);
    // A byte of a head now and then.
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
        all_is_well(&place, &daemon, "slow heads");
    }
    // Asks for all there is a thousand times, and reads none of it.
    let greedy: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(daemon.address()).unwrap();
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_000).as_bytes());
            stream
        })
        .collect();
    all_is_well(&place, &daemon, "greedy");
    // One who leaves in the middle.
    let mut half = TcpStream::connect(daemon.address()).unwrap();
    half.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    // It is answered or not, as the server notices the end after the answer or before.
    let _ = half.read(&mut [0; 10]);
    drop(half);
    all_is_well(&place, &daemon, "half");
    // Nobody on the first ones' places any more: the server has let them go.
    let mut first = &slow[0];
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap_or(0), 0);
    drop(greedy);
}
