// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends all connections that a target has not confirmed. Repeats failed requests for a limited time.

use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context as _, bail};
use jiff::Zoned;
#[cfg(feature = "otlp")]
use mpwatch_exporters::send::Signal;
use mpwatch_exporters::send::{Backoff, Sender};
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_store::Outbox;

use crate::cli::DeliveryOptions;
use crate::daemon::export::{Step, step};
use crate::error::Failure;

/// `mpwatch export otlp`.
#[cfg(feature = "otlp")]
pub(super) fn otlp(options: &crate::cli::OtlpOptions) -> anyhow::Result<()> {
    let signal = if options.spans { Signal::Traces } else { Signal::Logs };
    let target = &options.target.options;
    send(Sender::otlp(target, signal, mpwatch_store::end_columns())?, target.batch, &options.delivery)
}

pub(super) fn send(mut sender: Sender, batch: u32, options: &DeliveryOptions) -> anyhow::Result<()> {
    let since = options.since.map(|since| since.resolve(&Zoned::now())).transpose()?;
    let mut outbox = Outbox::open(&options.db, &sender.name)
        .map_err(|error| Failure::at_start(error.is_denied(), error.to_string()))?;
    if options.resend {
        outbox.rewind();
    }
    let (mut retries, mut failing) = (0_u64, None);
    loop {
        match step(&mut sender, &mut outbox, since, batch) {
            Ok(Step::Idle) => break,
            Ok(Step::Confirmed(rejected)) => {
                failing = None;
                if let Some((count, why)) = rejected {
                    eprintln!("mpwatch: the server rejected {count} connections: {}", printable(&why));
                }
            }
            Err(error) if error.is_temporary() => {
                let (since, backoff) = failing.get_or_insert_with(|| (Instant::now(), Backoff::default()));
                let limit = options.retry_max_time;
                let left = limit.saturating_sub(since.elapsed());
                if left.is_zero() {
                    bail!(
                        "{error}; gave up after {limit:?}. Unconfirmed connections stay in the database: run this command again"
                    );
                }
                let pause = backoff.pause().min(left);
                eprintln!("mpwatch: {error}; trying again in {:.1} s", pause.as_secs_f64());
                retries += 1;
                sleep(pause);
            }
            Err(error) => return Err(error).context("unconfirmed connections stay in the database"),
        }
    }
    let sent = sender.sent;
    eprintln!(
        "mpwatch: sent {} connections in {} requests ({} bytes); {retries} repeated, {} rejected",
        sent.connections, sent.requests, sent.bytes, sent.rejected
    );
    Ok(())
}
