// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export otlp`.

use hyper::header::HeaderValue;
use jiff::Timestamp;
use mpwatch_store::Outbox;

use crate::cli::OtlpOptions;
use crate::error::Failure;
use crate::export::delivery::{Delivery, Sent};
use crate::export::http::Url;
use crate::export::otlp::{PATH, Sender};

pub(super) fn run(options: &OtlpOptions) -> anyhow::Result<()> {
    let url = Url::parse(&options.url).map_err(Failure::usage)?.with_default_path(PATH);
    let target = format!("otlp {url}");
    let headers = vec![("content-type", HeaderValue::from_static("application/x-protobuf"))];
    let sender =
        Sender { delivery: Delivery::new(url, headers, &options.delivery)?, batch: options.delivery.batch };
    let since = options.delivery.since.map(|since| since.resolve(Timestamp::now())).transpose()?;
    let mut outbox = Outbox::open(&options.delivery.db, &target)
        .map_err(|error| Failure::at_start(error.is_denied(), error.to_string()))?;
    if options.delivery.resend {
        outbox.rewind();
    }
    let (Sent { connections, requests, bytes, retries }, rejected) = sender.send(&mut outbox, since)?;
    eprintln!(
        "mpwatch: sent {connections} connections in {requests} requests ({bytes} bytes); {retries} repeated, {rejected} events rejected"
    );
    Ok(())
}
