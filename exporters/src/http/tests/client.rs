// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server with fixed pages, and requests to it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::http::server::Server;
use crate::http::site::Pages;
use crate::http::web_config::{Access, WebConfigError};

#[derive(Default)]
pub(super) struct TestPages {
    pub(super) stale: AtomicBool,
    pub(super) formatted: AtomicU64,
    pub(super) reloads: Mutex<Vec<Result<(), String>>>,
}

impl Pages for TestPages {
    fn metrics(&self) -> Result<String, String> {
        self.formatted.fetch_add(1, Ordering::Relaxed);
        Ok("a_metric 1\n".repeat(200))
    }

    fn flows(&self) -> Result<String, String> {
        Ok(format!("{{\"connections\":[{}]}}", "0,".repeat(16 << 20)))
    }

    fn readiness(&self) -> Result<(), String> {
        if self.stale.load(Ordering::Relaxed) { Err("no snapshot for 9 s".to_owned()) } else { Ok(()) }
    }

    fn web_config_reloaded(&self, outcome: Result<(), WebConfigError>) {
        self.reloads.lock().unwrap().push(outcome.map_err(|error| error.to_string()));
    }
}

pub(super) fn start() -> (Server, Arc<TestPages>) {
    start_with(Access::unrestricted())
}

pub(super) fn start_with(access: Access) -> (Server, Arc<TestPages>) {
    let pages = Arc::new(TestPages::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (Server::start(listener, access, Arc::clone(&pages) as Arc<dyn Pages>, Arc::default()).unwrap(), pages)
}

pub(super) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends bytes and reads until the server closes.
pub(super) fn exchange(server: &Server, request: &str) -> Vec<u8> {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    // The server may reset the connection.
    let _ = stream.read_to_end(&mut response);
    response
}

pub(super) fn get(server: &Server, path: &str, headers: &str) -> (String, Vec<u8>) {
    let response = exchange(
        server,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"),
    );
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8(response[..end].to_vec()).unwrap().to_lowercase(), response[end + 4..].to_vec())
}
