// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server as clients meet it, over real sockets.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;

use super::*;

#[derive(Default)]
struct Fixed {
    stale: AtomicBool,
}

impl Pages for Fixed {
    fn metrics(&self) -> Result<String, String> {
        Ok("a_metric 1\n".repeat(200))
    }

    fn readiness(&self) -> Result<(), String> {
        if self.stale.load(Ordering::Relaxed) { Err("no snapshot for 9 s".to_owned()) } else { Ok(()) }
    }
}

fn start() -> (Server, Arc<Fixed>) {
    let pages = Arc::new(Fixed::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (Server::start(listener, Arc::clone(&pages) as Arc<dyn Pages>, Arc::default()).unwrap(), pages)
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
fn clients_that_say_nothing_keep_nobody_out_beyond_their_number() {
    let (server, _) = start();
    let silent: Vec<TcpStream> = (0..MOST_CLIENTS - 1).map(|_| connect(&server)).collect();
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
    drop(silent);
}

#[test]
fn a_dropped_server_listens_no_more() {
    let (server, _) = start();
    let address = server.address();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}
