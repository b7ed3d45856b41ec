// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes snapshots to the database. A permanent error at the start is fatal; any other error suspends writing and is logged.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mpwatch_model::host::machine::Losses;
use mpwatch_model::metric::service::StoreState;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;
use mpwatch_store::{Limits, Store, StoreError, StoreFigures, StoreLosses};
use nix::unistd::Gid;

use super::sink::SnapshotSink;
use super::socket::group;
use super::status::Status;
use crate::config::Config;
use crate::error::Failure;

/// Maximum time for writing at the end. All sinks together must finish within 5 s.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// The alternative that a message offers if the database cannot be opened.
const HINT: &str = "or set `store.path` (--db); empty: no database, only metrics";
/// Time between two attempts to open the file, if the first attempt failed for a temporary reason, such as a full disk.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct StoreSink {
    path: PathBuf,
    /// Group of a new file.
    group: Option<u32>,
    limits: Limits,
    began: Timestamp,
    status: Arc<Status>,
    store: Result<Store, NotOpen>,
    is_paused: bool,
    /// Losses while the store was not open.
    losses: StoreLosses,
}

/// Why the last attempt to open the file failed, and when it was made.
struct NotOpen {
    why: String,
    tried: Instant,
}

fn limits(config: &Config) -> Limits {
    Limits {
        age: config.store_keep,
        bytes: config.store_max_size,
        sample_every: config.store_sample_every,
        sample_step: config.store_sample_step,
        ..Limits::default()
    }
}

impl StoreSink {
    /// Opens the file. `None`: the configuration names no file. After a temporary error, such as a full disk, `retry` opens it later.
    pub(super) fn open(config: &Config, status: Arc<Status>) -> anyhow::Result<Option<Self>> {
        let Some(path) = &config.store_path else { return Ok(None) };
        create_folder(path).map_err(|error| {
            let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
            let message =
                format!("cannot create the folder of {}: {error}; create it, {HINT}", path.display());
            Failure::at_start(is_denied, message)
        })?;
        let group = group(&config.socket_group).map(Gid::as_raw);
        // If this fails, `Store::open` reports the error.
        let _ = mpwatch_store::create(path, group);
        let limits = limits(config);
        let store = match Store::open(path, &limits) {
            Ok(store) => Ok(store),
            Err(error) if error.is_temporary() => Err(NotOpen::because(&error)),
            Err(error) => return Err(Failure::at_start(error.is_denied(), format!("{error}, {HINT}")).into()),
        };
        Ok(Some(Self {
            path: path.clone(),
            group,
            limits,
            began: Timestamp::now(),
            status,
            store,
            is_paused: false,
            losses: StoreLosses::default(),
        }))
    }

    pub(super) fn began(&mut self, at: Timestamp) {
        self.began = at;
        if let Ok(store) = &self.store {
            store.set_began(at);
        }
    }

    fn retry(&mut self) {
        if !self.store.as_ref().is_err_and(|not_open| not_open.tried.elapsed() >= RETRY_INTERVAL) {
            return;
        }
        self.reopen();
    }

    /// If the file was removed or replaced, continues with a new file or the other file.
    fn replace_removed(&mut self) {
        if !self.store.as_ref().is_ok_and(Store::is_removed) {
            return;
        }
        let Some(losses) = self.close(Store::close_removed) else { return };
        let StoreLosses { snapshots_dropped, flows_lost, samples_lost, .. } = losses;
        self.losses.snapshots_dropped += snapshots_dropped;
        self.losses.flows_lost += flows_lost;
        self.losses.samples_lost += samples_lost;
        let file = self.path.display();
        tracing::warn!(%file, flows_lost, "the file was removed or replaced; a new one is opened");
        let _ = mpwatch_store::create(&self.path, self.group);
        self.reopen();
    }

    /// Closes the store. `None`: it is not open.
    fn close(&mut self, close: impl FnOnce(Store) -> StoreLosses) -> Option<StoreLosses> {
        let closed = NotOpen { why: String::new(), tried: Instant::now() };
        std::mem::replace(&mut self.store, Err(closed)).ok().map(close)
    }

    fn reopen(&mut self) {
        self.store = Store::open(&self.path, &self.limits).map_err(|error| NotOpen::because(&error));
        self.began(self.began);
    }

    /// Logs when writing stops and when it continues.
    fn report(&mut self) {
        let paused = match &self.store {
            Ok(store) => store.losses().paused,
            Err(not_open) => Some(not_open.why.clone()),
        };
        let file = self.path.display();
        match &paused {
            Some(why) if !self.is_paused => {
                tracing::warn!(%file, why, "writing to the store is suspended; metrics continue");
            }
            None if self.is_paused => tracing::info!(%file, "writing to the store continues"),
            _ => {}
        }
        self.is_paused = paused.is_some();
        let figures = self.store.as_ref().map(Store::figures).unwrap_or_default();
        let StoreFigures { written, retired, waiting, bytes } = figures;
        let state = StoreState { paused: self.is_paused, written, retired, waiting, size: Bytes(bytes) };
        self.status.update(|service| service.store = Some(state));
    }
}

impl NotOpen {
    fn because(error: &StoreError) -> Self {
        Self { why: error.to_string(), tried: Instant::now() }
    }
}

/// Creates the folder of the file if its parent exists. Other users cannot read it, because connections show which hosts communicate.
fn create_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.exists() => DirBuilder::new().mode(0o750).create(folder),
        _ => Ok(()),
    }
}

impl SnapshotSink for StoreSink {
    fn consume(&mut self, snapshot: &Arc<Snapshot>) {
        self.replace_removed();
        self.retry();
        match &self.store {
            Ok(store) => store.offer(snapshot),
            Err(_) => self.losses.snapshots_dropped += 1,
        }
        self.report();
    }

    fn configure(&mut self, config: &Config) {
        self.limits = limits(config);
        if let Ok(store) = &self.store {
            store.set_limits(&self.limits);
        }
    }

    fn add_losses(&self, losses: &mut Losses) {
        let of_store = self.store.as_ref().map(Store::losses).unwrap_or_default();
        for StoreLosses { snapshots_dropped, flows_lost, samples_lost, paused: _ } in
            [&self.losses, &of_store]
        {
            losses.store_snapshots_dropped += snapshots_dropped;
            losses.store_flows_lost += flows_lost;
            losses.store_samples_lost += samples_lost;
        }
    }

    fn finish(&mut self) {
        let Some(StoreLosses { snapshots_dropped, flows_lost, samples_lost, paused }) =
            self.close(|store| store.close_within(CLOSE_TIMEOUT))
        else {
            return;
        };
        if flows_lost + snapshots_dropped > 0 || paused.is_some() {
            let why = paused.unwrap_or_else(|| "the writer was late".to_owned());
            tracing::warn!(file = %self.path.display(), flows_lost, snapshots_dropped, samples_lost, why, "the store is not complete");
        }
    }
}

#[cfg(test)]
#[path = "tests/store.rs"]
mod tests;
