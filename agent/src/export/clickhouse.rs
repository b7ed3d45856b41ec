// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends connections to ClickHouse. A batch counts as sent when the server has confirmed it; otherwise it is resent, which changes
//! nothing there.

use std::io::Write as _;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use jiff::Timestamp;
use mpwatch_exporters::clickhouse::end::{End, EndColumns};
use mpwatch_exporters::clickhouse::{rows, schema};
use mpwatch_model::endpoint::printable;
use mpwatch_store::{Outbox, StoredEnd, bottleneck_columns, connection_columns, subflow_columns};

use super::http::{Answer, Client, percent_encoded};
use super::retry::Retry;

/// Fast, and two thirds of the size of the fastest.
const COMPRESSION: Compression = Compression::new(3);
/// Of a server's error message, so many characters are shown.
const MAX_MESSAGE: usize = 300;
/// What the server does with an insertion. It confirms when the rows are stored, also those of other shards; fields that only a later
/// schema has are ignored.
const SETTINGS: &str = "wait_end_of_query=1&insert_distributed_sync=1&input_format_skip_unknown_fields=1";

/// The columns of the database's views.
pub(crate) fn columns() -> EndColumns {
    EndColumns {
        connection: connection_columns(),
        subflow: subflow_columns(),
        bottleneck: bottleneck_columns(),
    }
}

/// How connections are sent.
pub(crate) struct Sender {
    pub(crate) client: Client,
    /// Name of the database on the server.
    pub(crate) database: String,
    /// Connections in a request.
    pub(crate) batch: u32,
    /// How long a request is repeated.
    pub(crate) retry_for: Duration,
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

impl Sender {
    /// Sends everything that the server has not confirmed.
    pub(crate) fn send(&self, outbox: &mut Outbox, since: Option<Timestamp>) -> anyhow::Result<Sent> {
        let mut sent = Sent::default();
        self.check_schema(&mut sent)?;
        let columns = columns();
        let query = format!("query={}&{SETTINGS}", percent_encoded(&schema::insertion(&self.database)));
        loop {
            let ends = outbox.next(since, self.batch)?;
            if ends.is_empty() {
                return Ok(sent);
            }
            let count = ends.len() as u64;
            let body = encode(ends, &columns)?;
            sent.bytes += body.len() as u64;
            self.request(&query, &body, true, &mut sent)?;
            outbox.confirm()?;
            sent.connections += count;
            sent.requests += 1;
        }
    }

    /// Fails if the tables are missing, or of another version.
    fn check_schema(&self, sent: &mut Sent) -> anyhow::Result<()> {
        let query = format!("query={}", percent_encoded(&schema::version_query(&self.database)));
        let apply = "apply the output of `mpwatch export clickhouse --schema` to the server";
        let text = self.request(&query, &Bytes::new(), false, sent).with_context(|| {
            format!(
                "the server may lack the tables of mpwatch in database `{}`; if so, {apply}",
                self.database
            )
        })?;
        match text.trim().parse::<u32>() {
            Ok(schema::VERSION) => Ok(()),
            Ok(found) if found > schema::VERSION => {
                bail!(
                    "the tables on the server are of schema {found}, this mpwatch knows {}; use a newer mpwatch",
                    schema::VERSION
                )
            }
            Ok(found) => bail!(
                "the tables on the server are of schema {found}, this mpwatch writes {}; {apply}",
                schema::VERSION
            ),
            Err(_) => bail!(
                "the server answered `{}` instead of the version of its tables; check --url",
                shown(&text)
            ),
        }
    }

    /// Sends a request until it succeeds; returns the answer.
    fn request(&self, query: &str, body: &Bytes, gzip: bool, sent: &mut Sent) -> anyhow::Result<String> {
        let mut retry = Retry::within(self.retry_for);
        loop {
            let error = match self.client.post(query, body.clone(), gzip) {
                Ok(answer) if is_success(&answer) => return Ok(answer.text),
                Ok(answer) => {
                    let text = format!("the server answered {}: {}", answer.status, shown(&answer.text));
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

/// An error can follow a status that was sent before it occurred.
fn is_success(answer: &Answer) -> bool {
    answer.status == 200 && !answer.text.contains("DB::Exception")
}

/// The beginning of a server's text, which must not steer a terminal.
fn shown(text: &str) -> String {
    let text: String = text.chars().take(MAX_MESSAGE).collect();
    printable(&text).into_owned()
}

/// The body of an insertion, compressed.
fn encode(ends: Vec<StoredEnd>, columns: &EndColumns) -> anyhow::Result<Bytes> {
    let mut compressed = GzEncoder::new(Vec::new(), COMPRESSION);
    let mut line = Vec::new();
    for StoredEnd { connection, subflows, bottlenecks, version } in ends {
        line.clear();
        rows::append(&End { connection, subflows, bottlenecks }, columns, version, &mut line)?;
        compressed.write_all(&line)?;
    }
    Ok(compressed.finish()?.into())
}
