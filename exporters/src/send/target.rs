// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets by their kind: the sender, and the name under which the database keeps the target's progress.

use mpwatch_model::flow::end::EndColumns;

#[cfg(feature = "clickhouse")]
use super::clickhouse::{self, Clickhouse};
use super::client::{Client, HttpError};
use super::headers::Scheme;
#[cfg(feature = "otlp")]
use super::otlp::{Otlp, Signal};
use super::sender::Sender;
#[cfg(feature = "clickhouse")]
use super::sender::shown;
use super::url::Url;
use crate::options::{Compression, TargetOptions};

/// Why there is no sender, or no answer to a query.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The address is wrong.
    #[error("{0}")]
    Address(String),
    /// A file of the options cannot be used, or there is no answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Status and beginning of an error message.
    #[error("the server answered {0}: {1}")]
    Answer(u16, String),
}

/// Where connections are sent.
pub struct Target {
    /// The same for the same address and kind.
    pub name: String,
    /// Sends them.
    pub sender: Sender,
}

fn url(options: &TargetOptions) -> Result<Url, TargetError> {
    Url::parse(options.url.as_deref().unwrap_or_default()).map_err(TargetError::Address)
}

/// The answer of a ClickHouse server to a query.
#[cfg(feature = "clickhouse")]
pub fn answer_of_clickhouse(options: &TargetOptions, query: &str) -> Result<String, TargetError> {
    let client = Client::new(url(options)?, options.clone(), Scheme::Clickhouse)?;
    let answer = client.post(&clickhouse::asking(query))?;
    if clickhouse::is_success(&answer) {
        return Ok(answer.text());
    }
    Err(TargetError::Answer(answer.status, shown(&answer.text())))
}

impl Target {
    /// A ClickHouse server. `columns`: of the records that it gets.
    #[cfg(feature = "clickhouse")]
    pub fn clickhouse(options: &TargetOptions, columns: EndColumns) -> Result<Self, TargetError> {
        let url = url(options)?;
        let name = format!("clickhouse {url} {}", options.database);
        let client = Client::new(url, options.clone(), Scheme::Clickhouse)?;
        let compression = options.compression.unwrap_or(Compression::Zstd);
        let engine = Clickhouse { database: options.database.clone(), compression };
        Ok(Self { name, sender: Sender::new(client, Box::new(engine), columns, options.sample) })
    }

    /// A receiver of OTLP. `columns`: of the records that it gets.
    #[cfg(feature = "otlp")]
    pub fn otlp(options: &TargetOptions, signal: Signal, columns: EndColumns) -> Result<Self, TargetError> {
        let url = url(options)?.with_default_path(signal.path()).map_err(TargetError::Address)?;
        let name = format!("otlp {url}");
        let client = Client::new(url, options.clone(), Scheme::Basic)?;
        let compression = options.compression.unwrap_or(Compression::Gzip);
        let engine = Otlp { signal, compression };
        Ok(Self { name, sender: Sender::new(client, Box::new(engine), columns, options.sample) })
    }
}
