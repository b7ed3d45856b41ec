// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to the server over real sockets.

mod client;
mod secured;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::server::{MAX_CLIENTS, Server};
use super::web_config::Access;
use client::{connect, exchange, get, start};

#[test]
fn each_path_has_its_response() {
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
    assert!(get(&server, "/-/healthy", "").0.starts_with("http/1.1 200"));
    assert_eq!(get(&server, "/-/ready", "").0, get(&server, "/readyz", "").0);
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
}

#[test]
fn metrics_are_compressed_if_the_client_accepts_gzip() {
    let (server, _) = start();
    let (head, body) = get(&server, "/metrics", "Accept-Encoding: deflate, gzip;q=0.5\r\n");
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "a_metric 1\n".repeat(200));
    assert!(!get(&server, "/metrics", "Accept-Encoding: gzip;q=0\r\n").0.contains("content-encoding"));
}

#[test]
fn garbage_huge_heads_and_other_methods_are_rejected() {
    let (server, _) = start();
    for request in
        ["\u{1}\u{2}\u{3}garbage\r\n\r\n", &format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000))]
    {
        let answer = String::from_utf8_lossy(&exchange(&server, request)).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let post = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    assert!(String::from_utf8_lossy(&exchange(&server, post)).starts_with("HTTP/1.1 405"));
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
}

#[test]
fn idle_clients_do_not_lock_out_others() {
    let (server, _) = start();
    let mut idle: Vec<TcpStream> = (0..300).map(|_| connect(&server)).collect();
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
    // The number of clients is limited: the first clients were disconnected, so reading returns the end of the stream.
    assert_eq!(idle[0].read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn clients_that_never_read_do_not_lock_out_others() {
    let (server, _) = start();
    let requests = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2_000);
    let _stuck: Vec<TcpStream> = (0..MAX_CLIENTS + 10)
        .map(|_| {
            let mut stream = connect(&server);
            // Fills the socket buffers; the server then cannot send its responses.
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(requests.as_bytes());
            stream
        })
        .collect();
    assert!(get(&server, "/healthz", "").0.starts_with("http/1.1 200"));
}

#[test]
fn many_requests_for_metrics_share_their_text() {
    let (server, pages) = start();
    let began = Instant::now();
    let one = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
    let answers =
        exchange(&server, &format!("{}{one}Connection: close\r\n\r\n", format!("{one}\r\n").repeat(499)));
    let answers = String::from_utf8_lossy(&answers);
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 500);
    assert_eq!(answers.matches("a_metric 1\n").count(), 500 * 200);
    let formatted = u128::from(pages.formatted.load(Ordering::Relaxed));
    assert!(formatted <= 1 + began.elapsed().as_millis() / 100, "{formatted}");
}

#[test]
fn a_client_with_occasional_requests_outlives_idle_ones() {
    let (server, _) = start();
    let mut regular = connect(&server);
    let mut idle = Vec::new();
    for _ in 0..10 {
        // The server may accept the idle clients of two rounds before it reads the next request: fewer than `MAX_CLIENTS`.
        idle.extend((0..MAX_CLIENTS / 4).map(|_| connect(&server)));
        regular.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        regular.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        // The rest of the response, up to the last byte of its body.
        let mut end = [0; 3];
        while &end != b"ok\n" {
            end.rotate_left(1);
            regular.read_exact(&mut end[2..]).unwrap();
        }
    }
}

#[test]
fn a_dropped_server_stops_listening() {
    let (server, _) = start();
    let address = server.address();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn flows_are_not_served_without_authentication() {
    let (server, _) = start();
    let (head, body) = get(&server, "/api/v1/flows", "");
    assert!(head.starts_with("http/1.1 403"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("web.config"), "{body:?}");
}

/// The status of `/metrics` for a request with these headers.
fn status(server: &Server, version: &str, headers: &str) -> String {
    let request = format!("GET /metrics HTTP/{version}\r\nConnection: close\r\n{headers}\r\n");
    String::from_utf8_lossy(&exchange(server, &request)).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_local_server_rejects_names_of_other_machines() {
    let (server, _) = start();
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let own = own.trim_end();
    let right = ["localhost", "LocalHost:9917", "127.0.0.1:9917", "192.0.2.1", "[::1]", "[::1]:9917", own]
        .map(str::to_owned);
    for host in right.into_iter().chain([format!("{}:80", own.to_uppercase())]) {
        assert_eq!(status(&server, "1.1", &format!("Host: {host}\r\n")), "200", "{host}");
    }
    for host in [
        "attacker.example",
        "attacker.example:9917",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example",
        "x y",
        "",
    ] {
        assert_eq!(status(&server, "1.1", &format!("Host: {host}\r\n")), "421", "{host}");
    }
    let two = "Host: localhost\r\nHost: attacker.example\r\n";
    assert_eq!(status(&server, "1.1", two), "421");
    assert_eq!(status(&server, "1.0", ""), "200", "HTTP/1.0 needs no Host header");
    let (_, body) = get(&server, "/metrics", "Host: attacker.example\r\n");
    let advice = String::from_utf8(body).unwrap();
    assert!(advice.contains("use an IP address, localhost or the host name"), "{advice}");
}

#[test]
fn a_local_server_accepts_the_configured_names() {
    for (hosts, host, expected) in [
        ("stats.example, other.example", "Stats.example:443", "200"),
        ("stats.example, other.example", "other.example", "200"),
        ("stats.example,", "attacker.example", "421"),
        ("stats.example,", ":80", "421"),
        ("", "", "421"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pages = Arc::new(client::TestPages::default());
        let mut access = Access::unrestricted();
        hosts.clone_into(&mut access.hosts);
        let server = Server::start(listener, access, pages, Arc::default()).unwrap();
        assert_eq!(status(&server, "1.1", &format!("Host: {host}\r\n")), expected, "{hosts:?}: {host:?}");
    }
}

#[test]
fn a_server_on_all_addresses_answers_to_every_name() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let pages = Arc::new(client::TestPages::default());
    let server = Server::start(listener, Access::unrestricted(), pages, Arc::default()).unwrap();
    assert_eq!(status(&server, "1.1", "Host: node1.example\r\n"), "200");
}
