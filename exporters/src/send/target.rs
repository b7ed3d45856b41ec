// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets by their kind: the sender, and the name under which the database keeps the target's progress.

use mpwatch_model::flow::end::EndColumns;

#[cfg(feature = "clickhouse")]
use super::clickhouse::{self, Clickhouse};
use super::client::Client;
use super::headers::Scheme;
#[cfg(feature = "otlp")]
use super::otlp::{Otlp, Signal};
#[cfg(feature = "clickhouse")]
use super::sender::confirmed;
use super::sender::{SendError, Sender};
use super::url;
#[cfg(feature = "otlp")]
use crate::options::Compression;
use crate::options::TargetOptions;

/// Why there is no sender, or no answer to a query.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The address is wrong.
    #[error("{0}")]
    Address(String),
    /// A file of the options cannot be used, or the server does not answer.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Where connections are sent.
pub struct Target {
    /// The same for the same address and kind.
    pub name: String,
    /// Sends them.
    pub sender: Sender,
}

fn client(options: &TargetOptions, path: &str, scheme: Scheme) -> Result<(String, Client), TargetError> {
    let parse = |text: &str| url::parse(text).map_err(TargetError::Address);
    let mut url = parse(options.url.as_deref().unwrap_or_default())?;
    if url.path() == "/" {
        url = parse(&format!("{}{path}", url.to_string().trim_end_matches('/')))?;
    }
    Ok((url.to_string(), Client::new(url, options.clone(), scheme).map_err(SendError::from)?))
}

/// The answer of a ClickHouse server to a query.
#[cfg(feature = "clickhouse")]
pub fn answer_of_clickhouse(options: &TargetOptions, query: &str) -> Result<String, TargetError> {
    let (_, client) = client(options, "/", Scheme::Clickhouse)?;
    let (answer, _) = confirmed(&client, &Clickhouse::new(options), &clickhouse::asking(query))?;
    Ok(answer.text())
}

impl Target {
    /// A ClickHouse server. `columns`: of the records that it gets.
    #[cfg(feature = "clickhouse")]
    pub fn clickhouse(options: &TargetOptions, columns: EndColumns) -> Result<Self, TargetError> {
        let (url, client) = client(options, "/", Scheme::Clickhouse)?;
        let name = format!("clickhouse {url} {}", options.database);
        let engine = Box::new(Clickhouse::new(options));
        Ok(Self { name, sender: Sender::new(client, engine, columns, options.sample) })
    }

    /// A receiver of OTLP. `columns`: of the records that it gets.
    #[cfg(feature = "otlp")]
    pub fn otlp(options: &TargetOptions, signal: Signal, columns: EndColumns) -> Result<Self, TargetError> {
        let (url, client) = client(options, signal.path(), Scheme::Basic)?;
        let engine = Otlp { signal, compression: options.compression.unwrap_or(Compression::Gzip) };
        let sender = Sender::new(client, Box::new(engine), columns, options.sample);
        Ok(Self { name: format!("otlp {url}"), sender })
    }
}
