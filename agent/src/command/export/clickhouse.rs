// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export clickhouse`: prints the schema, or sends.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use hyper::header::HeaderValue;
use jiff::Timestamp;
use mpwatch_exporters::clickhouse::schema::{self, Place};
use mpwatch_store::Outbox;

use crate::cli::ClickhouseOptions;
use crate::command::output::print;
use crate::error::Failure;
use crate::export::clickhouse::Sender;
use crate::export::delivery::{Delivery, Sent, columns};
use crate::export::http::{Url, secret};

pub(super) fn run(options: &ClickhouseOptions) -> anyhow::Result<()> {
    if let Some(url) = &options.url {
        return send(options, url);
    }
    let place = Place { database: &options.database, cluster: options.cluster.as_deref() };
    print(&schema::ddl(&columns(), place, env!("CARGO_PKG_VERSION")))
}

fn send(options: &ClickhouseOptions, url: &str) -> anyhow::Result<()> {
    let url = Url::parse(url).map_err(Failure::usage)?;
    let target = format!("clickhouse {url} {}", options.database);
    let sender = Sender {
        delivery: Delivery::new(url, headers(options)?, &options.delivery)?,
        database: options.database.clone(),
        batch: options.delivery.batch,
    };
    let since = options.delivery.since.map(|since| since.resolve(Timestamp::now())).transpose()?;
    let mut outbox = Outbox::open(&options.delivery.db, &target)
        .map_err(|error| Failure::at_start(error.is_denied(), error.to_string()))?;
    if options.delivery.resend {
        outbox.rewind();
    }
    let Sent { connections, requests, bytes, retries } = sender.send(&mut outbox, since)?;
    eprintln!(
        "mpwatch: sent {connections} connections in {requests} requests ({bytes} bytes); {retries} repeated"
    );
    Ok(())
}

fn headers(options: &ClickhouseOptions) -> anyhow::Result<Vec<(&'static str, HeaderValue)>> {
    let Some(user) = &options.user else { return Ok(Vec::new()) };
    let user = secret(user).context("the name of --user has characters that HTTP does not allow")?;
    let mut headers = vec![("x-clickhouse-user", user)];
    if let Some(file) = &options.password_file {
        headers.push(("x-clickhouse-key", password(file)?));
    }
    Ok(headers)
}

/// The first line of a file.
fn password(file: &Path) -> anyhow::Result<HeaderValue> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the password from {shown}"))?;
    secret(text.lines().next().unwrap_or_default())
        .with_context(|| format!("the first line of {shown} has characters that HTTP does not allow"))
}
