// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server as clients meet it, over real sockets.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::*;

#[derive(Default)]
struct Fixed {
    stale: AtomicBool,
    changes: Mutex<Vec<Result<(), String>>>,
}

impl Pages for Fixed {
    fn metrics(&self) -> Result<String, String> {
        Ok("a_metric 1\n".repeat(200))
    }

    fn flows(&self) -> Result<String, String> {
        Ok(format!("{{\"connections\":[{}]}}", "0,".repeat(16 << 20)))
    }

    fn readiness(&self) -> Result<(), String> {
        if self.stale.load(Ordering::Relaxed) { Err("no snapshot for 9 s".to_owned()) } else { Ok(()) }
    }

    fn access_changed(&self, outcome: Result<(), WebConfigError>) {
        self.changes.lock().unwrap().push(outcome.map_err(|error| error.to_string()));
    }
}

fn start() -> (Server, Arc<Fixed>) {
    start_with(Access::open())
}

fn start_with(access: Access) -> (Server, Arc<Fixed>) {
    let pages = Arc::new(Fixed::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (Server::start(listener, access, Arc::clone(&pages) as Arc<dyn Pages>, Arc::default()).unwrap(), pages)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends bytes and reads until the server closes.
fn exchange(server: &Server, request: &str) -> Vec<u8> {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A server that has enough may reset the connection.
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn get(server: &Server, path: &str, headers: &str) -> (String, Vec<u8>) {
    let answer =
        exchange(server, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"));
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase(), answer[end + 4..].to_vec())
}

#[test]
fn each_path_has_its_answer() {
    let (server, pages) = start();
    let (head, body) = get(&server, "/metrics", "");
    assert!(head.starts_with("http/1.1 200") && head.contains("version=0.0.4"), "{head}");
    assert_eq!(body, "a_metric 1\n".repeat(200).as_bytes());
    assert!(get(&server, "/", "").0.contains("text/html"));
    assert!(get(&server, "/nothing", "").0.starts_with("http/1.1 404"));
    assert!(get(&server, "/readyz", "").0.starts_with("http/1.1 200"));
    pages.stale.store(true, Ordering::Relaxed);
    let (head, body) = get(&server, "/readyz", "");
    assert!(head.starts_with("http/1.1 503"), "{head}");
    assert_eq!(body, b"no snapshot for 9 s\n");
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
}

#[test]
fn who_takes_gzip_gets_it() {
    let (server, _) = start();
    let (head, body) = get(&server, "/metrics", "Accept-Encoding: deflate, gzip;q=0.5\r\n");
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "a_metric 1\n".repeat(200));
    assert!(!get(&server, "/metrics", "Accept-Encoding: gzip;q=0\r\n").0.contains("content-encoding"));
}

#[test]
fn garbage_huge_heads_and_other_methods_are_turned_away() {
    let (server, _) = start();
    for request in
        ["\u{1}\u{2}\u{3}garbage\r\n\r\n", &format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000))]
    {
        let answer = String::from_utf8_lossy(&exchange(&server, request)).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let post = "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    assert!(String::from_utf8_lossy(&exchange(&server, post)).starts_with("HTTP/1.1 405"));
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
}

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let (server, _) = start();
    let mut silent: Vec<TcpStream> = (0..300).map(|_| connect(&server)).collect();
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
    // Their number is bounded: the first ones were let go, which reads as the end.
    assert_eq!(silent[0].read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn clients_that_never_read_keep_nobody_out() {
    let (server, _) = start();
    let ask = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2_000);
    let _stuck: Vec<TcpStream> = (0..MOST_CLIENTS + 10)
        .map(|_| {
            let mut stream = connect(&server);
            // It takes what fits between us and is then stuck.
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(ask.as_bytes());
            stream
        })
        .collect();
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
}

#[test]
fn one_that_asks_now_and_then_outlives_those_that_say_nothing() {
    let (server, _) = start();
    let mut regular = connect(&server);
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.extend((0..MOST_CLIENTS / 2).map(|_| connect(&server)));
        regular.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        regular.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        // The rest of it, up to its body's last byte.
        let mut last = [0; 3];
        while &last != b"ok\n" {
            last.rotate_left(1);
            regular.read_exact(&mut last[2..]).unwrap();
        }
    }
}

#[test]
fn a_dropped_server_listens_no_more() {
    let (server, _) = start();
    let address = server.address();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn the_snapshot_is_served_to_a_few_at_a_time() {
    let (server, _) = start();
    let ask = b"GET /api/v1/flows HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let slow = |_| {
        let mut stream = connect(&server);
        stream.write_all(ask).unwrap();
        let mut begun = [0; 15];
        stream.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200 OK");
        stream
    };
    let slow: Vec<TcpStream> = (0..MOST_LARGE).map(slow).collect();
    let (head, _) = get(&server, "/api/v1/flows", "");
    assert!(head.starts_with("http/1.1 503"), "{head}");
    assert!(get(&server, "/metrics", "").0.starts_with("http/1.1 200"), "a scrape does not wait");
    for mut stream in slow {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.ends_with(b"0,]}") && rest.len() > 32 << 20);
    }
    // Their room is free once the server has seen that they are done.
    let until = Instant::now() + Duration::from_secs(30);
    while !get(&server, "/api/v1/flows", "").0.starts_with("http/1.1 200") {
        assert!(Instant::now() < until, "the room is still taken");
    }
}

mod secured;
