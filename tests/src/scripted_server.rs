// SPDX-License-Identifier: MIT OR Apache-2.0
//! An HTTP server that fails as a test requires, and returns the requests that it received.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use flate2::read::GzDecoder;

/// How the server answers a request.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// With this status and text.
    Status(u16, &'static str),
    /// With 200 and these bytes.
    Bytes(&'static [u8]),
    /// With 200 and a web page, as a proxy does while its server is down.
    Page,
    /// Reads the request, and then waits until the client gives up.
    Stall,
    /// With 200 and less text than the header announces.
    Half,
    /// Closes the connection.
    Close,
}

/// A received request.
#[derive(Debug)]
pub struct Request {
    /// Its first line and headers.
    pub head: String,
    /// Its body, decompressed.
    pub body: Vec<u8>,
}

/// Starts a server that gives these answers, one for each request. Returns its port and the requests.
pub fn server(answers: Vec<Answer>) -> (u16, Receiver<Request>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut answers = answers.into_iter();
    (port, answering(listener, move |_| answers.next()))
}

/// Starts a server that chooses its answer to each request; `None` ends the server. Returns the requests. A client that does not
/// send a whole request gets no answer.
pub fn answering(
    listener: TcpListener,
    mut choose: impl FnMut(&Request) -> Option<Answer> + Send + 'static,
) -> Receiver<Request> {
    let (sender, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(request) = read(&mut stream) else { continue };
            let Some(answer) = choose(&request) else { return };
            // The test may have ended.
            if sender.send(request).is_err() {
                return;
            }
            reply(&mut stream, answer);
        }
    });
    requests
}

/// Reads a request. `None`: the client closed the connection before the end of the request.
pub fn read(stream: &mut impl Read) -> Option<Request> {
    let mut input = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        input.read_line(&mut head).ok().filter(|length| *length > 0)?;
    }
    let lines: Vec<String> = head.lines().map(str::to_lowercase).collect();
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut sent = vec![0; length.unwrap_or_default()];
    input.read_exact(&mut sent).ok()?;
    let mut body = Vec::new();
    match lines.iter().find_map(|line| line.strip_prefix("content-encoding: ")) {
        Some("gzip") => drop(GzDecoder::new(&sent[..]).read_to_end(&mut body).unwrap()),
        Some("zstd") => body = zstd::decode_all(&sent[..]).unwrap(),
        Some(other) => panic!("compressed with {other}"),
        None => body = sent,
    }
    Some(Request { head, body })
}

/// Answers a request.
pub fn reply(stream: &mut (impl Read + Write), answer: Answer) {
    // Headers of ClickHouse and of an OTLP receiver.
    const OWN: &str = "x-clickhouse-summary: {}\r\ncontent-type: application/x-protobuf";
    let head = |status: u16, length: usize| {
        let headers = if matches!(answer, Answer::Page) { "content-type: text/html" } else { OWN };
        format!("HTTP/1.1 {status} Any\r\n{headers}\r\ncontent-length: {length}\r\n\r\n")
    };
    let bytes = match answer {
        Answer::Status(status, text) => [head(status, text.len()).as_bytes(), text.as_bytes()].concat(),
        Answer::Bytes(bytes) => [head(200, bytes.len()).as_bytes(), bytes].concat(),
        Answer::Page => [head(200, 18).as_bytes(), b"<html>Sorry</html>"].concat(),
        Answer::Half => [head(200, 100).as_bytes(), b"half"].concat(),
        Answer::Stall => {
            // Waits until the client closes.
            let _ = stream.read(&mut [0]);
            return;
        }
        Answer::Close => return,
    };
    // A client that has closed reports the error itself.
    let _ = stream.write_all(&bytes);
}
