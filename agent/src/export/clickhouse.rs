// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends connections to ClickHouse. A batch counts as sent when the server has confirmed it; otherwise it is resent, which changes
//! nothing there.

use anyhow::{Context as _, bail};
use hyper::body::Bytes;
use jiff::Timestamp;
use mpwatch_exporters::clickhouse::{rows, schema};
use mpwatch_exporters::end::EndColumns;
use mpwatch_store::{Outbox, StoredEnd};

use super::delivery::{Compressor, Delivery, Sent, columns, of_stored, shown};
use super::http::{Answer, Post, percent_encoded};

/// What the server does with an insertion. It confirms when the rows are stored, also those of other shards; fields that only a later
/// schema has are ignored.
const SETTINGS: &str = "wait_end_of_query=1&insert_distributed_sync=1&input_format_skip_unknown_fields=1";

/// How connections are sent.
pub(crate) struct Sender {
    pub(crate) delivery: Delivery,
    /// Name of the database on the server.
    pub(crate) database: String,
    /// Connections in a request.
    pub(crate) batch: u32,
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
            let post = Post { query: query.clone(), body: encode(ends, &columns)?, gzip: true };
            self.delivery.post(&post, is_success, &mut sent)?;
            outbox.confirm()?;
            sent.connections += count;
            sent.requests += 1;
            sent.bytes += post.body.len() as u64;
        }
    }

    /// Fails if the tables are missing, or of another version.
    fn check_schema(&self, sent: &mut Sent) -> anyhow::Result<()> {
        const KNOWN: u32 = schema::VERSION;
        let query = format!("query={}", percent_encoded(&schema::version_query(&self.database)));
        let post = Post { query, body: Bytes::new(), gzip: false };
        let apply = "apply the output of `mpwatch export clickhouse --schema` to the server";
        let answer = self.delivery.post(&post, is_success, sent).with_context(|| {
            let database = &self.database;
            format!("the server may lack the tables of mpwatch in database `{database}`; if so, {apply}")
        })?;
        let text = answer.text();
        match text.parse::<u32>() {
            Ok(KNOWN) => Ok(()),
            Ok(found) if found > KNOWN => bail!(
                "the tables on the server are of schema {found}, this mpwatch knows {KNOWN}; use a newer mpwatch"
            ),
            Ok(found) => {
                bail!("the tables on the server are of schema {found}, this mpwatch writes {KNOWN}; {apply}")
            }
            Err(_) => bail!(
                "the server answered `{}` instead of the version of its tables; check --url",
                shown(&text)
            ),
        }
    }
}

/// An error can follow a status that was sent before it occurred.
fn is_success(answer: &Answer) -> bool {
    answer.status == 200 && !answer.text().contains("DB::Exception")
}

/// The body of an insertion, compressed.
fn encode(ends: Vec<StoredEnd>, columns: &EndColumns) -> anyhow::Result<Bytes> {
    let mut compressed = Compressor::new();
    let mut line = Vec::new();
    for end in ends {
        line.clear();
        let version = end.version;
        rows::append(&of_stored(end), columns, version, &mut line)?;
        compressed.write(&line)?;
    }
    Ok(compressed.finish()?)
}
