// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends one batch at a time, and keeps it until the server confirms it. The caller decides when and how long a failed request is repeated.

use std::io;

use mpwatch_model::flow::end::{End, EndColumns};
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::table::{Cell, Column, ColumnType};

use super::client::{Answer, Client, Post, SendError};
use crate::sample::weight;

/// HTTP status for a body that the server cannot decompress, among other causes (RFC 9110 section 15.5.16).
const UNSUPPORTED_MEDIA_TYPE: u16 = 415;
/// Beginning of the error for a successful answer of another program, such as a proxy's web page.
pub(super) const WRONG_SERVICE: &str = "check the address, this is not an answer of";
/// Maximum number of characters of a server's message that are shown.
const MAX_MESSAGE: usize = 300;

/// One end of a connection, and the version of this record: later records of the same end have greater versions.
pub type Record = (End, u64);

/// Number of connections that the server rejects for good, and the reason in its answer.
pub type Rejected = (u64, String);

/// Adds the column for the weight of a sampled connection.
#[must_use]
pub fn with_weight(mut columns: EndColumns) -> EndColumns {
    columns.connection.push(Column::new("sample_weight", ColumnType::Real));
    columns
}

/// Adds the weight of a connection. `None`: it is not sent. Without a pair, a hash of its id decides. If its payload is unknown, it is always sent.
fn sampled(mut record: Record, columns: &EndColumns, threshold: Option<u64>) -> Option<Record> {
    let end = &mut record.0;
    let bytes = |name: &str| end.integer(columns, name).and_then(|bytes| u64::try_from(bytes).ok());
    let payload = bytes("bytes_sent").zip(bytes("bytes_received"));
    let weight = match threshold.zip(payload) {
        None => 1.0,
        Some((threshold, (sent, received))) => {
            let number = end.pair(columns).unwrap_or_else(|| hashed(end.text(columns, "id")));
            weight(threshold, number, sent + received)?
        }
    };
    end.connection.push(Some(Cell::Real(weight)));
    Some(record)
}

/// FNV-1a hash, which is the same in every process, so that later records of the connection get the same decision.
fn hashed(id: Option<&str>) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    id.unwrap_or_default().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fnv)
}

/// Behaviour that differs between ClickHouse and OTLP.
pub(super) trait Engine: Send {
    /// A request that checks whether the server can store batches, and advice for its failure. `None`: no check is needed.
    fn question(&self) -> Option<(Post, String)> {
        None
    }
    /// Fails if the answer to [`Self::question`] means that the server cannot store batches.
    fn check(&self, _: &Answer) -> Result<(), String> {
        Ok(())
    }
    /// Whether timelines are sent.
    fn needs_timeline(&self) -> bool {
        false
    }
    /// The request with a batch, and its number of connections. `None`: there is nothing to send now.
    fn encode(&self, records: Vec<Record>, columns: &EndColumns) -> io::Result<Option<(Post, u64)>>;
    /// The connections that the server rejects for good. `None`: it rejects none. Fails if the answer does not confirm the request.
    fn outcome(&self, answer: &Answer) -> Result<Option<Rejected>, String>;
}

/// Totals of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Connections in confirmed requests.
    pub connections: u64,
    /// Confirmed requests.
    pub requests: u64,
    /// Compressed bytes of confirmed requests.
    pub bytes: u64,
    /// Connections that the server rejected for good.
    pub rejected: u64,
}

/// Sends to one target.
pub struct Sender {
    /// mpwatch's database keeps the target's progress under this name: kind, address and, for ClickHouse, the name of the database there.
    pub name: String,
    client: Client,
    engine: Box<dyn Engine>,
    columns: EndColumns,
    is_checked: bool,
    /// A batch that is not confirmed.
    pending: Option<(Post, u64)>,
    /// Totals since the start.
    pub sent: Sent,
}

impl Sender {
    pub(super) fn new(name: String, client: Client, engine: Box<dyn Engine>, columns: EndColumns) -> Self {
        let (columns, sent) = (with_weight(columns), Sent::default());
        Self { name, client, engine, columns, is_checked: false, pending: None, sent }
    }

    /// Whether records need their timelines.
    pub fn needs_timeline(&self) -> bool {
        self.engine.needs_timeline()
    }

    /// Whether a batch waits for its confirmation.
    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Encodes the next batch for [`Self::send`]. Sampling may omit all of it.
    pub fn prepare(&mut self, records: impl IntoIterator<Item = Record>) -> Result<(), SendError> {
        let sampled = |record| sampled(record, &self.columns, self.client.options.sample);
        let records = records.into_iter().filter_map(sampled).collect();
        self.pending = self.engine.encode(records, &self.columns).map_err(SendError::Encoding)?;
        Ok(())
    }

    /// Checks whether the server can store batches, unless an earlier check succeeded and no batch was refused since.
    pub fn check(&mut self) -> Result<(), SendError> {
        if let (false, Some((question, advice))) = (self.is_checked, self.engine.question()) {
            match post_confirmed(&self.client, &*self.engine, &question) {
                Ok((answer, _)) => self.engine.check(&answer).map_err(SendError::Refused)?,
                Err(SendError::Answer { status, text, is_temporary }) => {
                    return Err(SendError::Answer {
                        status,
                        text: format!("{text}; {advice}"),
                        is_temporary,
                    });
                }
                Err(other) => return Err(other),
            }
        }
        self.is_checked = true;
        Ok(())
    }

    /// Sends the batch without a retry. `Ok`: the server has confirmed it.
    pub fn send(&mut self) -> Result<Option<Rejected>, SendError> {
        let Some((post, connections)) = &self.pending else { return Ok(None) };
        let answer = post_confirmed(&self.client, &*self.engine, post);
        // A server that refuses a batch may have other tables now, so they are checked again.
        self.is_checked = answer.as_ref().err().is_none_or(SendError::is_temporary);
        // The count is the server's claim: it cannot reject more connections than it was sent.
        Ok(answer?.1.map(|(count, why)| (count.min(*connections), shown(&why))))
    }

    /// Counts and discards the batch. Call it after the database has recorded that the server has the batch; without that record, mpwatch sends
    /// the batch again.
    pub fn confirm(&mut self, rejected: Option<&Rejected>) {
        let Some((post, connections)) = self.pending.take() else { return };
        self.sent.connections += connections;
        self.sent.requests += 1;
        self.sent.bytes += post.body.len() as u64;
        self.sent.rejected += rejected.map_or(0, |(count, _)| *count);
    }

    /// Discards the batch, because the caller will read its connections again.
    pub fn forget(&mut self) {
        self.pending = None;
    }
}

/// Sends a request without a retry. Fails if the server does not confirm it.
pub(super) fn post_confirmed(
    client: &Client,
    engine: &dyn Engine,
    post: &Post,
) -> Result<(Answer, Option<Rejected>), SendError> {
    let answer = client.post(post)?;
    let reason = match engine.outcome(&answer) {
        Ok(rejected) => return Ok((answer, rejected)),
        Err(reason) => reason,
    };
    let (status, mut text, is_temporary) = (answer.status, shown(&reason), answer.is_temporary());
    if status == UNSUPPORTED_MEDIA_TYPE || text.contains("Content-Encoding") {
        text.push_str(" (if the server lacks zstd, set `compression` to gzip)");
    }
    if let Some(location) = answer.headers.get("location").filter(|_| (300..400).contains(&status)) {
        let location = shown(&String::from_utf8_lossy(location.as_bytes()));
        text = format!("a redirect to {location}, which mpwatch does not follow: use that as `url`");
    }
    Err(SendError::Answer { status, text, is_temporary })
}

/// The beginning of a server's text, without characters that control a terminal.
pub(super) fn shown(text: &str) -> String {
    let text: String = text.chars().take(MAX_MESSAGE).collect();
    printable(&text).into_owned()
}
