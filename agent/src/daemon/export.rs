// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends connections from the database to external targets (ClickHouse, OTLP), with one thread per target. The database is the queue: a record
//! stays there until the target confirms it. The database stores each confirmation, so these threads may end at any time.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use mpwatch_exporters::options::TargetOptions;
#[cfg(feature = "otlp")]
use mpwatch_exporters::send::Signal;
use mpwatch_exporters::send::{Backoff, Rejected, SendError, Sender, Sent};
use mpwatch_model::metric::service::ExportState;
use mpwatch_model::unit::{Bytes, Nanos};
use mpwatch_store::{Backlog, Outbox, StoreError, end_columns};

use super::status::Status;
use crate::config::Config;

/// Time between two checks of the number of connections that are not yet exported. A full batch is sent without waiting for `every`.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The target has confirmed every connection: nothing was sent.
    Idle,
    Confirmed(Option<Rejected>),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StepError {
    /// Whether the same step may succeed later, without any action of a user.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Send(error) if error.is_temporary())
    }
}

/// Sends the next batch of at most `batch` connections, without a retry. `since`: omit connections that ended earlier; `None`: omit none.
pub(crate) fn step(
    sender: &mut Sender,
    outbox: &mut Outbox,
    since: Option<Timestamp>,
    batch: u32,
) -> Result<Step, StepError> {
    sender.check()?;
    if !sender.has_pending() {
        let ends = outbox.next(since, batch, sender.needs_timeline())?;
        if ends.is_empty() {
            return Ok(Step::Idle);
        }
        sender.prepare(ends.into_iter().map(|stored| (stored.end, stored.version)))?;
    }
    let rejected = sender.send()?;
    outbox.confirm()?;
    sender.confirm(rejected.as_ref());
    Ok(Step::Confirmed(rejected))
}

pub(crate) struct Export {
    kind: &'static str,
    sender: Sender,
    batch: u32,
    every: Duration,
}

/// The targets of a configuration. Fails if an address is wrong, or if a secret or certificate cannot be read from its file.
pub(crate) fn from_config(config: &Config) -> anyhow::Result<Vec<Export>> {
    let exports = config.exports().filter(|(_, options)| options.url.is_some());
    exports
        .map(|(kind, options)| {
            let sender = sender(kind, options).with_context(|| format!("[export.{kind}]"))?;
            Ok(Export { kind, sender, batch: options.batch, every: options.every })
        })
        .collect()
}

fn sender(kind: &str, options: &TargetOptions) -> anyhow::Result<Sender> {
    let sender = match kind {
        #[cfg(feature = "clickhouse")]
        "clickhouse" => Sender::clickhouse(options, end_columns()),
        #[cfg(feature = "otlp")]
        "otlp" => Sender::otlp(options, Signal::Logs, end_columns()),
        #[cfg(feature = "otlp")]
        "otlp_spans" => Sender::otlp(options, Signal::Traces, end_columns()),
        _ => anyhow::bail!("this mpwatch was built without this exporter"),
    };
    Ok(sender?)
}

/// Starts a thread for each target.
pub(super) fn start(config: &Config, status: &Arc<Status>) -> anyhow::Result<()> {
    let Some(database) = &config.store_path else { return Ok(()) };
    for export in from_config(config)? {
        let worker = Worker {
            export,
            database: database.clone(),
            status: Arc::clone(status),
            outbox: None,
            backoff: Backoff::default(),
            failures: 0,
            logged: None,
        };
        let thread = thread::Builder::new().name("mpwatch-export".to_owned());
        thread.spawn(move || worker.run()).context("cannot start a thread")?;
    }
    Ok(())
}

struct Worker {
    export: Export,
    database: PathBuf,
    status: Arc<Status>,
    outbox: Option<Outbox>,
    backoff: Backoff,
    failures: u64,
    /// The failure that was logged last. `None`: the last attempt succeeded.
    logged: Option<String>,
}

impl Worker {
    fn run(mut self) -> ! {
        loop {
            match self.send_all() {
                Ok(()) => {
                    self.succeeded();
                    self.wait();
                }
                Err(error) => {
                    self.failed(&error);
                    thread::sleep(self.backoff.pause());
                }
            }
        }
    }

    /// Sends until the target has confirmed everything.
    fn send_all(&mut self) -> Result<(), StepError> {
        loop {
            self.open()?;
            let Some(outbox) = &mut self.outbox else { return Ok(()) };
            match step(&mut self.export.sender, outbox, None, self.export.batch)? {
                Step::Idle => return Ok(()),
                Step::Confirmed(None) => {}
                Step::Confirmed(Some((connections, why))) => {
                    tracing::warn!(
                        target = self.export.kind,
                        connections,
                        why,
                        "the target rejected records of connections"
                    );
                }
            }
            self.succeeded();
            self.publish();
        }
    }

    /// Opens the database, and reopens it if the file was replaced.
    fn open(&mut self) -> Result<(), StepError> {
        if self.outbox.as_ref().is_some_and(Outbox::is_current) {
            return Ok(());
        }
        self.export.sender.forget();
        let outbox = Outbox::open(&self.database, &self.export.sender.name)?;
        outbox.count_backlog()?;
        self.outbox = Some(outbox);
        Ok(())
    }

    fn succeeded(&mut self) {
        self.backoff = Backoff::default();
        if self.logged.take().is_some() {
            tracing::info!(target = self.export.kind, "the export continues");
        }
    }

    /// Counts a failure, and logs it if the previous failure was different. Unconfirmed connections stay in the database.
    fn failed(&mut self, error: &StepError) {
        self.failures += 1;
        // Some rows were read from the outbox but not sent: a new outbox reads them again.
        if matches!(error, StepError::Store(_) | StepError::Send(SendError::Encoding(_))) {
            self.outbox = None;
        }
        self.publish();
        let text = error.to_string();
        if self.logged.as_ref() != Some(&text) {
            tracing::warn!(target = self.export.kind, error = text, "the export fails; it is repeated");
            self.logged = Some(text);
        }
    }

    /// Waits until a batch is full or the export interval (`every`) has elapsed.
    fn wait(&self) {
        let began = Instant::now();
        loop {
            let left = self.export.every.saturating_sub(began.elapsed());
            thread::sleep(left.min(CHECK_INTERVAL));
            let waiting = self.publish().map_or(0, |backlog| backlog.connections);
            if left <= CHECK_INTERVAL || waiting >= self.export.batch.into() {
                return;
            }
        }
    }

    /// Updates the metrics and returns the backlog. `None`: the database could not be read.
    fn publish(&self) -> Option<Backlog> {
        let backlog = self.outbox.as_ref().and_then(|outbox| outbox.backlog().ok());
        let Sent { connections, bytes, rejected, .. } = self.export.sender.sent;
        let lag = |backlog: Backlog| {
            let waited = backlog.oldest.map(|oldest| Timestamp::now().duration_since(oldest));
            Nanos(waited.and_then(|waited| u64::try_from(waited.as_nanos()).ok()).unwrap_or_default())
        };
        self.status.export_is(ExportState {
            target: self.export.kind,
            connections,
            sent: Bytes(bytes),
            failures: self.failures,
            rejected,
            lost: backlog.map(|backlog| backlog.lost),
            waiting: backlog.map(|backlog| backlog.connections),
            lag: backlog.map(lag),
        });
        backlog
    }
}
