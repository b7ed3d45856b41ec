// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends what a target has not confirmed, one batch at a time. A batch is kept until it is confirmed; who calls decides when a failed one
//! is repeated, and for how long.

use jiff::Timestamp;
use mpwatch_exporters::sample::Sampling;
use mpwatch_model::flow::end::EndColumns;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::table::{Cell, Column, ColumnType};
use mpwatch_store::{Outbox, StoreError, StoredEnd, end_columns};

use super::http::{Answer, Client, HttpError, Post};

/// HTTP status, also of a body that the server cannot decompress (RFC 9110 section 15.5.16).
const UNSUPPORTED_MEDIA_TYPE: u16 = 415;
/// Of a server's error message, so many characters are shown.
const MAX_MESSAGE: usize = 300;

/// The columns of the database's views, and the weight of a connection that was sampled.
pub(crate) fn columns() -> EndColumns {
    let mut columns = end_columns();
    columns.connection.push(Column::new("sample_weight", ColumnType::Real));
    columns
}

/// Adds the weight of a connection. `None`: it is not kept. Without a pair, its id decides; unknown payload is always kept.
fn sampled(mut stored: StoredEnd, columns: &EndColumns, sampling: Option<Sampling>) -> Option<StoredEnd> {
    let end = &mut stored.end;
    let bytes = |name: &str| end.integer(columns, name).and_then(|bytes| u64::try_from(bytes).ok());
    let payload = bytes("bytes_sent").zip(bytes("bytes_received"));
    let weight = match sampling.zip(payload) {
        None => 1.0,
        Some((sampling, (sent, received))) => {
            let number = end.pair(columns).unwrap_or_else(|| hashed(end.text(columns, "id")));
            sampling.weight(number, sent + received)?
        }
    };
    end.connection.push(Some(Cell::Real(weight)));
    Some(stored)
}

/// The same in every process, so that a later record of the connection is decided alike.
fn hashed(id: Option<&str>) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    id.unwrap_or_default().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fnv)
}

/// What is different from engine to engine.
pub(crate) trait Engine: Send {
    /// Sent before the first batch, to find out whether the server can take it.
    fn question(&self) -> Option<Post>;
    /// Fails if the answer to that question says that it cannot.
    fn check(&self, answer: &Answer) -> Result<(), String>;
    /// What to do if the question itself fails.
    fn advice(&self) -> String;
    /// Whether it sends timelines.
    fn needs_timeline(&self) -> bool {
        false
    }
    /// The request with a batch, which may be empty, and how many connections it has. `None`: none of them is to be sent now.
    fn encode(&self, ends: Vec<StoredEnd>, columns: &EndColumns) -> anyhow::Result<Option<(Post, u64)>>;
    /// Whether an answer confirms a request.
    fn is_success(&self, answer: &Answer) -> bool;
    /// How much a server that has confirmed a request will not store, and why.
    fn rejected(&self, answer: &Answer) -> Option<(u64, String)>;
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    /// Compressed.
    pub(crate) bytes: u64,
    /// Connections that the server has rejected for good.
    pub(crate) rejected: u64,
}

/// What a step did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Everything is confirmed.
    Idle,
    /// A batch was confirmed. With how many connections of it the server has rejected for good, and why.
    Confirmed(Option<(u64, String)>),
}

/// Why a batch was not confirmed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the server answered {status}: {text}")]
    Answer { status: u16, text: String, is_temporary: bool },
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot encode connections: {0:#}")]
    Encoding(anyhow::Error),
}

impl SendError {
    /// Whether the same request may succeed later, without anybody's doing.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Http(error) => !matches!(error, HttpError::Credentials(_)),
            Self::Answer { is_temporary, .. } => *is_temporary,
            Self::Refused(_) | Self::Store(_) | Self::Encoding(_) => false,
        }
    }
}

/// Sends to one target.
pub(crate) struct Sender {
    client: Client,
    engine: Box<dyn Engine>,
    columns: EndColumns,
    /// Connections in a request.
    batch: u32,
    /// `None`: all connections are sent.
    sampling: Option<Sampling>,
    is_checked: bool,
    /// A batch that is not confirmed.
    pending: Option<(Post, u64)>,
    pub(crate) sent: Sent,
}

impl Sender {
    pub(crate) fn new(
        client: Client,
        engine: Box<dyn Engine>,
        batch: u32,
        sampling: Option<Sampling>,
    ) -> Self {
        let columns = columns();
        Self {
            client,
            engine,
            columns,
            batch,
            sampling,
            is_checked: false,
            pending: None,
            sent: Sent::default(),
        }
    }

    /// Sends the next batch, once.
    pub(crate) fn step(&mut self, outbox: &mut Outbox, since: Option<Timestamp>) -> Result<Step, SendError> {
        if !self.is_checked {
            self.check()?;
            self.is_checked = true;
        }
        if self.pending.is_none() {
            let ends = outbox.next(since, self.batch, self.engine.needs_timeline())?;
            if ends.is_empty() {
                return Ok(Step::Idle);
            }
            let ends =
                ends.into_iter().filter_map(|end| sampled(end, &self.columns, self.sampling)).collect();
            self.pending = self.engine.encode(ends, &self.columns).map_err(SendError::Encoding)?;
        }
        let mut rejected = None;
        if let Some((post, connections)) = &self.pending {
            let answer = self.confirmed(post);
            // A server that refuses may have other tables now.
            self.is_checked = answer.as_ref().err().is_none_or(SendError::is_temporary);
            rejected = self.engine.rejected(&answer?).map(|(count, why)| (count, shown(&why)));
            self.sent.connections += connections;
            self.sent.requests += 1;
            self.sent.bytes += post.body.len() as u64;
            self.sent.rejected += rejected.as_ref().map_or(0, |(count, _)| *count);
        }
        outbox.confirm()?;
        self.pending = None;
        Ok(Step::Confirmed(rejected))
    }

    /// Forgets a batch that was not confirmed: it is read again.
    pub(crate) fn forget(&mut self) {
        self.pending = None;
    }

    fn check(&self) -> Result<(), SendError> {
        let Some(question) = self.engine.question() else { return Ok(()) };
        match self.confirmed(&question) {
            Ok(answer) => self.engine.check(&answer).map_err(SendError::Refused),
            Err(SendError::Answer { status, text, is_temporary }) => {
                let text = format!("{text}; {}", self.engine.advice());
                Err(SendError::Answer { status, text, is_temporary })
            }
            Err(other) => Err(other),
        }
    }

    fn confirmed(&self, post: &Post) -> Result<Answer, SendError> {
        let answer = self.client.post(post)?;
        if self.engine.is_success(&answer) {
            return Ok(answer);
        }
        let (status, mut text, is_temporary) = (answer.status, shown(&answer.text()), answer.is_temporary());
        if status == UNSUPPORTED_MEDIA_TYPE || text.contains("Content-Encoding") {
            text.push_str(" (if the server lacks zstd, set `compression` to gzip)");
        }
        Err(SendError::Answer { status, text, is_temporary })
    }
}

/// The beginning of a server's text, which must not steer a terminal.
pub(super) fn shown(text: &str) -> String {
    let text: String = text.chars().take(MAX_MESSAGE).collect();
    printable(&text).into_owned()
}
