// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a real Prometheus server on loopback, with its data in a temporary folder.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::poll_until;
use serde_json::Value;

/// Timeout for a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A Prometheus server. Dropping it kills it.
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    /// Whether Prometheus is installed.
    pub fn is_installed() -> bool {
        Command::new("prometheus").arg("--version").output().is_ok()
    }

    /// Starts Prometheus with a configuration and returns when it is ready. The folder stores its data.
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
        let outcome = poll_until("Prometheus to be ready", TIMEOUT, ready);
        let log = || fs::read_to_string(folder.join("prometheus.log")).unwrap_or_default();
        outcome.unwrap_or_else(|error| panic!("{error}: {}", log()));
        prometheus
    }

    /// Evaluates an expression: the labels and value of each sample. Panics if the expression is invalid.
    pub fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let path = format!("/api/v1/query?query={}", url_encoded(expression));
        let (_, body) = self.get(&path).expect("Prometheus responds");
        let response: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert_eq!(response["status"], "success", "{expression}: {response:#}");
        let samples = response["data"]["result"].as_array().expect("a list of samples");
        let metric_and_value = |sample: &Value| {
            let value = sample["value"][1].as_str().and_then(|value| value.parse().ok()).expect("a number");
            (sample["metric"].clone(), value)
        };
        samples.iter().map(metric_and_value).collect()
    }

    /// State of Prometheus' targets, for error messages.
    pub fn targets(&self) -> String {
        self.get("/api/v1/targets").map(|(_, body)| body).unwrap_or_default()
    }

    /// Status line and body of the response. `None`: no valid response.
    fn get(&self, path: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        // HTTP/1.0: the body is not chunked and ends with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: prometheus\r\n\r\n").ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        let (head, body) = response.split_once("\r\n\r\n")?;
        Some((head.lines().next()?.to_owned(), body.to_owned()))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Chooses a free port, because Prometheus cannot choose one and report it.
fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("a socket has an address")
}

/// Percent-encodes text for a URL.
fn url_encoded(text: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(escape).collect()
}
