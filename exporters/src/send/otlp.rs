// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends log events or spans of closed connections to an OpenTelemetry Collector.

use std::io;

use mpwatch_model::flow::end::EndColumns;
use ureq::http::header::CONTENT_TYPE;

use super::client::{Answer, Client, Post, SendError};
use super::headers::Scheme;
use super::sender::{Engine, Record, Rejected, Sender, WRONG_SERVICE};
use crate::options::{Compression, TargetOptions};
use crate::otlp;

/// The form in which a closed connection is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A log event.
    Logs,
    /// A span, with a child for each subflow.
    Traces,
}

impl Sender {
    /// Sends to a receiver of OTLP. `columns`: the columns of the records.
    pub fn otlp(options: &TargetOptions, signal: Signal, columns: EndColumns) -> Result<Self, SendError> {
        let path = match signal {
            Signal::Logs => "/v1/logs",
            Signal::Traces => "/v1/traces",
        };
        let client = Client::new(options, path, Scheme::Basic)?;
        let engine = Otlp { signal, compression: options.compression.unwrap_or(Compression::Gzip) };
        Ok(Self::new(format!("otlp {}", client.url), client, Box::new(engine), columns))
    }
}

struct Otlp {
    signal: Signal,
    compression: Compression,
}

impl Engine for Otlp {
    fn needs_timeline(&self) -> bool {
        self.signal == Signal::Traces
    }

    /// Omits open connections: they are sent when they have closed.
    fn encode(&self, mut ends: Vec<Record>, columns: &EndColumns) -> io::Result<Option<(Post, u64)>> {
        const VERSION: &str = env!("CARGO_PKG_VERSION");
        ends.retain(|(end, _)| end.closed_ns(columns).is_some());
        if ends.is_empty() {
            return Ok(None);
        }
        let count = ends.len() as u64;
        let body = match self.signal {
            Signal::Logs => otlp::logs(ends.iter().map(|(end, version)| (end, *version)), columns, VERSION),
            Signal::Traces => otlp::spans(ends.iter().map(|(end, _)| end), columns, VERSION),
        };
        let content_type = "application/x-protobuf";
        let post = Post { query: String::new(), body, content_type, compression: None };
        Ok(Some((post.compressed(self.compression)?, count)))
    }

    /// Rejected records count as confirmed, because the protocol forbids resending them.
    fn outcome(&self, answer: &Answer) -> Result<Option<Rejected>, String> {
        if !(200..300).contains(&answer.status) {
            return Err(answer.text());
        }
        let kind = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_empty = kind.is_empty() && answer.body.is_empty();
        let rejected = if is_empty { Some(Rejected::default()) } else { otlp::rejected(kind, &answer.body) };
        let rejected = rejected.ok_or_else(|| format!("{WRONG_SERVICE} OTLP: {}", answer.text()))?;
        Ok(Some(rejected).filter(|(count, _)| *count > 0))
    }
}
