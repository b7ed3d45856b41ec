// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends rows of the table `ends` to ClickHouse. Resending a batch changes nothing.

use std::io;

use mpwatch_model::flow::end::EndColumns;

use super::client::{Answer, Client, Post, SendError};
use super::headers::Scheme;
use super::sender::{Engine, Record, Rejected, Sender, WRONG_SERVICE, post_confirmed, shown};
use crate::clickhouse::{rows, schema};
use crate::options::{Compression, TargetOptions};
use crate::percent::percent_encoded;

/// Settings of an insertion. The server confirms when the rows are stored, also on other shards. Replicated tables must not ignore a repeated
/// batch: its copy to `pair_states` may be the part that had failed.
const SETTINGS: &str = "?wait_end_of_query=1&insert_distributed_sync=1&insert_deduplicate=0";
const CONTENT_TYPE: &str = "text/plain";
const APPLY: &str = "apply the output of `mpwatch export clickhouse --schema` to the server; for existing tables, the output of `--check`";

struct Clickhouse {
    database: String,
    compression: Compression,
}

impl Clickhouse {
    fn new(options: &TargetOptions) -> Self {
        let compression = options.compression.unwrap_or(Compression::Zstd);
        Self { database: options.database.clone(), compression }
    }
}

impl Sender {
    /// Sends to a ClickHouse server. `columns`: the columns of the records.
    pub fn clickhouse(options: &TargetOptions, columns: EndColumns) -> Result<Self, SendError> {
        let client = Client::new(options, "/", Scheme::Clickhouse)?;
        let name = format!("clickhouse {} {}", client.url, options.database);
        Ok(Self::new(name, client, Box::new(Clickhouse::new(options)), columns))
    }
}

/// The answer of a ClickHouse server to a query.
pub fn answer_of_clickhouse(options: &TargetOptions, query: &str) -> Result<String, SendError> {
    let client = Client::new(options, "/", Scheme::Clickhouse)?;
    let (answer, _) = post_confirmed(&client, &Clickhouse::new(options), &question(query))?;
    Ok(answer.text())
}

fn question(query: &str) -> Post {
    let query = format!("?query={}", percent_encoded(query));
    Post { query, body: Vec::new(), content_type: CONTENT_TYPE, compression: None }
}

impl Engine for Clickhouse {
    fn question(&self) -> Option<(Post, String)> {
        let database = &self.database;
        let advice =
            format!("the server may lack the tables of mpwatch in database `{database}`; if so, {APPLY}");
        Some((question(&schema::version_query(database)), advice))
    }

    fn check(&self, answer: &Answer) -> Result<(), String> {
        const KNOWN: u32 = schema::VERSION;
        let text = answer.text();
        match text.parse::<u32>() {
            // Later schemas only add columns, and an insertion names its columns, so hosts may be upgraded after the server.
            Ok(KNOWN..) => Ok(()),
            Ok(found) => Err(format!(
                "the tables on the server have schema {found}, this mpwatch writes {KNOWN}; {APPLY}"
            )),
            Err(_) => Err(format!(
                "the server answered `{}` instead of the version of its tables; check the address",
                shown(&text)
            )),
        }
    }

    fn encode(&self, ends: Vec<Record>, columns: &EndColumns) -> io::Result<Option<(Post, u64)>> {
        let count = ends.len() as u64;
        if count == 0 {
            return Ok(None);
        }
        // The statement is in the body, because it names all columns, which makes it too long for a URL on some servers.
        let mut body = schema::insertion(&self.database, columns).into_bytes();
        for (end, version) in &ends {
            rows::append(end, columns, *version, &mut body);
        }
        let post = Post { query: SETTINGS.to_owned(), body, content_type: CONTENT_TYPE, compression: None };
        Ok(Some((post.compressed(self.compression)?, count)))
    }

    /// Status 200 alone does not confirm a batch: an error can follow it, and any web server sends it. So ClickHouse's headers are required.
    fn outcome(&self, answer: &Answer) -> Result<Option<Rejected>, String> {
        let text = answer.text();
        if answer.status != 200 || text.contains("DB::Exception") {
            return Err(text);
        }
        let is_own = answer.headers.keys().any(|name| name.as_str().starts_with("x-clickhouse-"));
        if is_own { Ok(None) } else { Err(format!("{WRONG_SERVICE} ClickHouse: {text}")) }
    }
}
