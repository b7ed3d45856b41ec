// SPDX-License-Identifier: MIT OR Apache-2.0
//! OpenTelemetry Collector: a log event for each closed connection.

use mpwatch_exporters::end::{End, EndColumns};
use mpwatch_exporters::otlp;
use mpwatch_store::StoredEnd;

use super::http::{Answer, Post};
use super::sender::{Compressor, Engine, of_stored};

/// Path of the protocol, for an address without one.
pub(crate) const PATH: &str = "/v1/logs";

pub(crate) struct Otlp;

impl Engine for Otlp {
    fn question(&self) -> Option<Post> {
        None
    }

    fn check(&self, _: &Answer) -> Result<(), String> {
        Ok(())
    }

    fn advice(&self) -> String {
        String::new()
    }

    /// An open connection is sent when it has closed, because its record changes then.
    fn encode(&self, mut ends: Vec<StoredEnd>, columns: &EndColumns) -> anyhow::Result<Option<(Post, u64)>> {
        let closed = columns.connection.iter().position(|column| column.name == "closed_at_ns");
        ends.retain(|end| closed.is_some_and(|place| matches!(end.connection.get(place), Some(Some(_)))));
        if ends.is_empty() {
            return Ok(None);
        }
        let count = ends.len() as u64;
        let ends: Vec<(u64, End)> = ends.into_iter().map(|end| (end.version, of_stored(end))).collect();
        let ends = ends.iter().map(|(read_ns, end)| (end, *read_ns));
        let mut compressed = Compressor::new();
        compressed.write(&otlp::request(ends, columns, env!("CARGO_PKG_VERSION")))?;
        let body = compressed.finish()?;
        let content_type = "application/x-protobuf";
        Ok(Some((Post { query: String::new(), body, content_type, gzip: true }, count)))
    }

    fn is_success(&self, answer: &Answer) -> bool {
        (200..300).contains(&answer.status)
    }

    /// The protocol does not allow to resend what was rejected.
    fn rejected(&self, answer: &Answer) -> Option<(u64, String)> {
        otlp::rejected(&answer.body)
    }
}
