// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets by their kind: the sender, and the name under which the database has their cursor.

use std::time::Duration;

use mpwatch_exporters::sample::Sampling;

#[cfg(feature = "clickhouse")]
use super::clickhouse::{self, Clickhouse};
use super::headers::Scheme;
use super::http::Client;
#[cfg(feature = "otlp")]
use super::otlp::{Otlp, Signal};
use super::sender::Sender;
#[cfg(feature = "clickhouse")]
use super::sender::shown;
use super::url::Url;
use crate::compression::Compression;
use crate::credentials::Credentials;

/// How requests are made.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) credentials: Credentials,
    pub(crate) timeout: Duration,
    /// Connections in a request.
    pub(crate) batch: u32,
    pub(crate) compression: Compression,
    /// `None`: all connections are sent.
    pub(crate) sampling: Option<Sampling>,
}

/// Where connections go.
pub(crate) struct Target {
    /// Of its cursor.
    pub(crate) name: String,
    pub(crate) sender: Sender,
}

/// The answer of a ClickHouse server to a query.
#[cfg(feature = "clickhouse")]
pub(crate) fn answer_of_clickhouse(url: Url, delivery: Delivery, query: &str) -> anyhow::Result<String> {
    let client = Client::new(url, delivery.credentials, Scheme::Clickhouse, delivery.timeout)?;
    let answer = client.post(&clickhouse::asking(query))?;
    if clickhouse::is_success(&answer) {
        return Ok(answer.text());
    }
    anyhow::bail!("the server answered {}: {}", answer.status, shown(&answer.text()))
}

impl Target {
    #[cfg(feature = "clickhouse")]
    pub(crate) fn clickhouse(url: Url, database: &str, delivery: Delivery) -> anyhow::Result<Self> {
        let name = format!("clickhouse {url} {database}");
        let Delivery { credentials, timeout, batch, compression, sampling } = delivery;
        let client = Client::new(url, credentials, Scheme::Clickhouse, timeout)?;
        let engine = Clickhouse { database: database.to_owned(), compression };
        Ok(Self { name, sender: Sender::new(client, Box::new(engine), batch, sampling) })
    }

    #[cfg(feature = "otlp")]
    pub(crate) fn otlp(url: Url, signal: Signal, delivery: Delivery) -> anyhow::Result<Self> {
        let url = url.with_default_path(signal.path());
        let name = format!("otlp {url}");
        let Delivery { credentials, timeout, batch, compression, sampling } = delivery;
        let client = Client::new(url, credentials, Scheme::Basic, timeout)?;
        Ok(Self {
            name,
            sender: Sender::new(client, Box::new(Otlp { signal, compression }), batch, sampling),
        })
    }
}
