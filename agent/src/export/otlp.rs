// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends a log event for each closed connection to an OpenTelemetry Collector.

use hyper::body::Bytes;
use jiff::Timestamp;
use mpwatch_exporters::end::{End, EndColumns};
use mpwatch_exporters::otlp;
use mpwatch_store::{Outbox, StoredEnd};

use super::delivery::{Compressor, Delivery, Sent, columns, of_stored, shown};
use super::http::{Answer, Post};

/// Path of the protocol, for an address without one.
pub(crate) const PATH: &str = "/v1/logs";

/// How connections are sent.
pub(crate) struct Sender {
    pub(crate) delivery: Delivery,
    /// Connections in a request.
    pub(crate) batch: u32,
}

impl Sender {
    /// Sends every closed connection that the server has not confirmed. Also returns how many events it has rejected.
    pub(crate) fn send(&self, outbox: &mut Outbox, since: Option<Timestamp>) -> anyhow::Result<(Sent, u64)> {
        let (mut sent, mut rejected) = (Sent::default(), 0);
        let columns = columns();
        let closed = columns.connection.iter().position(|column| column.name == "closed_at_ns");
        let is_closed =
            |end: &StoredEnd| closed.is_some_and(|place| matches!(end.connection.get(place), Some(Some(_))));
        loop {
            let mut ends = outbox.next(since, self.batch)?;
            if ends.is_empty() {
                return Ok((sent, rejected));
            }
            // An open connection is sent when it has closed, because its record changes then.
            ends.retain(is_closed);
            if !ends.is_empty() {
                let count = ends.len() as u64;
                let post = Post { query: String::new(), body: encode(ends, &columns)?, gzip: true };
                let answer = self.delivery.post(&post, is_success, &mut sent)?;
                // The protocol does not allow to resend what was rejected.
                if let Some((events, why)) = otlp::rejected(&answer.body) {
                    eprintln!("mpwatch: the server rejected {events} events: {}", shown(&why));
                    rejected += events;
                }
                sent.connections += count;
                sent.requests += 1;
                sent.bytes += post.body.len() as u64;
            }
            outbox.confirm()?;
        }
    }
}

fn is_success(answer: &Answer) -> bool {
    (200..300).contains(&answer.status)
}

/// The body of a request, compressed.
fn encode(ends: Vec<StoredEnd>, columns: &EndColumns) -> anyhow::Result<Bytes> {
    let ends: Vec<(u64, End)> = ends.into_iter().map(|end| (end.version, of_stored(end))).collect();
    let ends = ends.iter().map(|(read_ns, end)| (end, *read_ns));
    let mut compressed = Compressor::new();
    compressed.write(&otlp::request(ends, columns, env!("CARGO_PKG_VERSION")))?;
    Ok(compressed.finish()?)
}
