// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server that confirms all requests immediately, so that a measurement contains only the sender's cost.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Starts the server, which ends with this process, and returns its port. `version`: its answer to a request without a body.
pub(super) fn start(version: u32) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Errors are ignored here, because the sender reports them.
            let _ = answer(&stream, version);
        }
    });
    port
}

fn answer(mut stream: &TcpStream, version: u32) -> std::io::Result<()> {
    let mut input = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    std::io::copy(&mut input.take(length), &mut std::io::sink())?;
    let text = if length == 0 { version.to_string() } else { String::new() };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nx-clickhouse-summary: {{}}\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    )
}
