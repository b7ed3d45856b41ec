// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the exports over HTTP have in common: requests that are repeated until they are confirmed, and compression.

use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::Duration;

use anyhow::bail;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use mpwatch_exporters::end::{End, EndColumns};
use mpwatch_model::endpoint::printable;
use mpwatch_store::{StoredEnd, bottleneck_columns, connection_columns, subflow_columns};

use super::http::{Answer, Client, Post, Url};
use super::retry::Retry;
use crate::cli::DeliveryOptions;

/// A compromise between CPU time and size.
const COMPRESSION: Compression = Compression::new(3);
/// Of a server's error message, so many characters are shown.
const MAX_MESSAGE: usize = 300;

/// The columns of the database's views.
pub(crate) fn columns() -> EndColumns {
    EndColumns {
        connection: connection_columns(),
        subflow: subflow_columns(),
        bottleneck: bottleneck_columns(),
    }
}

/// A connection of the store, as encoders take it.
pub(super) fn of_stored(stored: StoredEnd) -> End {
    let StoredEnd { connection, subflows, bottlenecks, .. } = stored;
    End { connection, subflows, bottlenecks }
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    /// Compressed.
    pub(crate) bytes: u64,
    pub(crate) retries: u64,
}

/// Sends requests, and repeats those that fail.
pub(crate) struct Delivery {
    client: Client,
    /// How long a request is repeated.
    retry_for: Duration,
}

impl Delivery {
    /// Requests to an address with these headers.
    pub(crate) fn new(
        url: Url,
        headers: Vec<(&'static str, HeaderValue)>,
        options: &DeliveryOptions,
    ) -> io::Result<Self> {
        let client = Client::new(url, headers, options.timeout)?;
        Ok(Self { client, retry_for: options.retry_max_time })
    }

    /// Sends a request until it succeeds; returns the answer. `is_success`: whether an answer confirms the request.
    pub(super) fn post(
        &self,
        post: &Post,
        is_success: impl Fn(&Answer) -> bool,
        sent: &mut Sent,
    ) -> anyhow::Result<Answer> {
        let mut retry = Retry::within(self.retry_for);
        loop {
            let error = match self.client.post(post) {
                Ok(answer) if is_success(&answer) => return Ok(answer),
                Ok(answer) => {
                    let text = format!("the server answered {}: {}", answer.status, shown(&answer.text()));
                    if !answer.is_temporary() && answer.status >= 300 {
                        bail!("{text}; what was not confirmed stays in the database");
                    }
                    text
                }
                Err(error) => error.to_string(),
            };
            let Some(pause) = retry.pause() else {
                bail!(
                    "{error}; gave up after {:?}. What was not confirmed stays in the database: run this command again",
                    self.retry_for
                );
            };
            eprintln!("mpwatch: {error}; trying again in {:.1} s", pause.as_secs_f64());
            sent.retries += 1;
            sleep(pause);
        }
    }
}

/// The beginning of a server's text, which must not steer a terminal.
pub(super) fn shown(text: &str) -> String {
    let text: String = text.chars().take(MAX_MESSAGE).collect();
    printable(&text).into_owned()
}

/// Compresses a body with gzip.
pub(super) struct Compressor(GzEncoder<Vec<u8>>);

impl Compressor {
    pub(super) fn new() -> Self {
        Self(GzEncoder::new(Vec::new(), COMPRESSION))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    pub(super) fn finish(self) -> io::Result<Bytes> {
        Ok(self.0.finish()?.into())
    }
}
