// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the totals of a sender if the database cannot record the first confirmation.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use mpwatch_model::flow::end::{End, EndColumns};

use super::client::{Answer, Client, Post};
use super::headers::Scheme;
use super::sender::{Engine, Record, Rejected, Sender, Sent};
use crate::options::TargetOptions;

/// Puts one byte per connection into a request. The server claims to reject this number of connections of each request.
struct Bytes(u64);

impl Engine for Bytes {
    fn encode(&self, records: Vec<Record>, _: &EndColumns) -> io::Result<Option<(Post, u64)>> {
        let body = vec![b'x'; records.len()];
        let count = records.len() as u64;
        let post = Post { query: String::new(), body, content_type: "text/plain", compression: None };
        Ok(Some((post, count)))
    }

    fn outcome(&self, answer: &Answer) -> Result<Option<Rejected>, String> {
        if answer.status == 200 { Ok(Some((self.0, "too old".to_owned()))) } else { Err(answer.text()) }
    }
}

/// Starts a server that gives this answer to `requests` requests with bodies of `body` bytes. Returns its address.
fn server(requests: usize, body: usize, answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for _ in 0..requests {
            let (mut client, _) = listener.accept().unwrap();
            let (mut request, mut part) = (Vec::new(), [0; 1_024]);
            while !request.ends_with(&[&b"\r\n\r\n"[..], &vec![b'x'; body]].concat()) {
                let length = client.read(&mut part).unwrap();
                request.extend_from_slice(&part[..length]);
            }
            let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            client.write_all(answer.as_bytes()).unwrap();
        }
    });
    format!("http://{address}")
}

/// A sender with a batch of three connections. The server claims to reject this number of them.
fn sender(requests: usize, rejected: u64) -> Sender {
    sender_to(server(requests, 3, "200 OK"), rejected)
}

fn sender_to(url: String, rejected: u64) -> Sender {
    let options = TargetOptions { url: Some(url), ..TargetOptions::default() };
    let client = Client::new(&options, "/", Scheme::Basic).unwrap();
    let mut sender = Sender::new("test".to_owned(), client, Box::new(Bytes(rejected)), EndColumns::default());
    sender.prepare((0..3).map(|version| (End::default(), version))).unwrap();
    sender
}

#[test]
fn a_server_cannot_reject_more_connections_than_it_was_sent() {
    let rejected = sender(1, 2_097_151).send().unwrap();
    assert_eq!(rejected, Some((3, "too old".to_owned())));
}

#[test]
fn a_batch_that_is_sent_again_counts_once() {
    let mut sender = sender(2, 1);
    // The database cannot record the first confirmation.
    sender.send().unwrap();
    assert_eq!((sender.sent, sender.has_pending()), (Sent::default(), true));
    let rejected = sender.send().unwrap();
    sender.confirm(rejected.as_ref());
    let expected = Sent { connections: 3, requests: 1, bytes: 3, rejected: 1 };
    assert_eq!((sender.sent, sender.has_pending()), (expected, false));
}

#[test]
fn the_error_for_a_redirect_names_its_target() {
    let url = server(1, 3, "307 Temporary Redirect\r\nLocation: https://collector.example/v1/logs");
    let error = sender_to(url, 0).send().unwrap_err().to_string();
    assert!(
        error.starts_with("the server answered 307: ") && error.contains("https://collector.example/v1/logs"),
        "{error}"
    );
}
