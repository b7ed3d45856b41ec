// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real Prometheus server, as Debian packages it, in a folder of its own on loopback.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::poll_until;
use serde_json::Value;

/// Longest wait for it to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prometheus; killed when it is dropped.
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    /// Whether it is installed.
    pub fn is_there() -> bool {
        Command::new("prometheus").arg("--version").output().is_ok()
    }

    /// Starts it with a configuration, and returns once it answers. Its data goes into the folder.
    pub fn start(folder: &Path, configuration: &str) -> Self {
        let file = folder.join("prometheus.yml");
        fs::write(&file, configuration).expect("a file can be written");
        let address = free_port();
        let log = fs::File::create(folder.join("prometheus.log")).expect("a file can be written");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("Prometheus can be started");
        let prometheus = Self { child, address };
        let ready = || prometheus.get("/-/ready").filter(|(status, _)| status.contains(" 200 "));
        let outcome = poll_until("Prometheus to be ready", PATIENCE, ready);
        let log = || fs::read_to_string(folder.join("prometheus.log")).unwrap_or_default();
        outcome.unwrap_or_else(|error| panic!("{error}: {}", log()));
        prometheus
    }

    /// What an expression gives now: each sample with its labels. An error of the expression is a panic.
    pub fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let path = format!("/api/v1/query?query={}", escaped(expression));
        let (_, body) = self.get(&path).expect("Prometheus answers");
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert_eq!(answer["status"], "success", "{expression}: {answer:#}");
        let samples = answer["data"]["result"].as_array().expect("a list of samples");
        let sample = |one: &Value| {
            let value = one["value"][1].as_str().and_then(|value| value.parse().ok()).expect("a number");
            (one["metric"].clone(), value)
        };
        samples.iter().map(sample).collect()
    }

    /// State of its targets, for who wonders why there is nothing.
    pub fn targets(&self) -> String {
        self.get("/api/v1/targets").map(|(_, body)| body).unwrap_or_default()
    }

    /// Status line and body.
    fn get(&self, path: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        // HTTP/1.0: the body comes whole and ends with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: prometheus\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.lines().next()?.to_owned(), body.to_owned()))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// It cannot be told to take any port and say which.
fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("a socket has an address")
}

/// For a URL.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(escape).collect()
}
