// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots for the database. What is wrong with the file is found out before anything is traced; what goes wrong later ends nothing but
//! the writing: metrics go on, connections wait, and the log says when it began and when it was over.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use jiff::Timestamp;
use mpwatch_model::host::Losses;
use mpwatch_model::service::StoreState;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;
use mpwatch_store::{Limits, Store, StoreError, StoreFigures, StoreLosses};

use super::sink::SnapshotSink;
use super::status::Status;
use crate::config::Config;

/// How long writing what is open may take at the end; the other outlets have the rest of their 5 s.
const FAREWELL: Duration = Duration::from_secs(3);
/// What else to do where it cannot be opened.
const HINT: &str = "or set `store.path` (--db); an empty one for metrics only";
/// How often a file that could not be opened for lack of room is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// The way out to the database.
pub(super) struct Database {
    path: PathBuf,
    limits: Limits,
    began: Timestamp,
    status: Arc<Status>,
    store: Result<Store, Waiting>,
    is_paused: bool,
    /// What was lost, while there is no store to count it.
    losses: StoreLosses,
}

/// There is no room for the file yet.
struct Waiting {
    why: String,
    tried: Instant,
}

fn limits(config: &Config) -> Limits {
    Limits {
        age: config.store_keep,
        bytes: config.store_max_size,
        sample_every: config.store_sample_every,
        ..Limits::default()
    }
}

impl Database {
    /// Opens the file. `None`: there is to be none. Fails where only a person can help; a full disk is none of these cases.
    pub(super) fn open(config: &Config, status: Arc<Status>) -> anyhow::Result<Option<Self>> {
        let Some(path) = &config.store_path else { return Ok(None) };
        make_folder(path).map_err(|error| {
            anyhow!("cannot make the folder of {}: {error}; make it, {HINT}", path.display())
        })?;
        let limits = limits(config);
        let store = match Store::open(path, &limits) {
            Ok(store) => Ok(store),
            Err(error) if error.may_pass() => Err(Waiting::because(&error)),
            Err(error) => return Err(anyhow!("{error}, {HINT}")),
        };
        Ok(Some(Self {
            path: path.clone(),
            limits,
            began: Timestamp::now(),
            status,
            store,
            is_paused: false,
            losses: StoreLosses::default(),
        }))
    }

    /// When tracing began.
    pub(super) fn began(&mut self, at: Timestamp) {
        self.began = at;
        if let Ok(store) = &self.store {
            store.began(at);
        }
    }

    fn try_again(&mut self) {
        if !self.store.as_ref().is_err_and(|waiting| waiting.tried.elapsed() >= AGAIN) {
            return;
        }
        self.store = Store::open(&self.path, &self.limits).map_err(|error| Waiting::because(&error));
        self.began(self.began);
    }

    /// Says when it stops and when it goes on.
    fn tell(&mut self) {
        let paused = match &self.store {
            Ok(store) => store.losses().paused,
            Err(waiting) => Some(waiting.why.clone()),
        };
        let file = self.path.display();
        match &paused {
            Some(why) if !self.is_paused => {
                tracing::warn!(%file, why, "the store is not being written; metrics go on");
            }
            None if self.is_paused => tracing::info!(%file, "the store is written again"),
            _ => {}
        }
        self.is_paused = paused.is_some();
        let figures = self.store.as_ref().map(Store::figures).unwrap_or_default();
        let StoreFigures { written, retired, waiting, bytes } = figures;
        let state = StoreState { paused: self.is_paused, written, retired, waiting, size: Bytes(bytes) };
        self.status.store_is(state);
    }
}

impl Waiting {
    fn because(error: &StoreError) -> Self {
        Self { why: error.to_string(), tried: Instant::now() }
    }
}

/// The folder of the file, where only its last part is missing: not readable for all, since flows tell who talks to whom.
fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.exists() => DirBuilder::new().mode(0o750).create(folder),
        _ => Ok(()),
    }
}

impl SnapshotSink for Database {
    fn take(&mut self, snapshot: &Arc<Snapshot>) {
        self.try_again();
        match &self.store {
            Ok(store) => store.offer(snapshot),
            Err(_) => self.losses.snapshots_dropped += 1,
        }
        self.tell();
    }

    fn configure(&mut self, config: &Config) {
        self.limits = limits(config);
        if let Ok(store) = &self.store {
            store.limit(&self.limits);
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
        let gone = Waiting { why: String::new(), tried: Instant::now() };
        let Ok(store) = std::mem::replace(&mut self.store, Err(gone)) else { return };
        let StoreLosses { snapshots_dropped, flows_lost, samples_lost, paused } =
            store.close_within(FAREWELL);
        if flows_lost + snapshots_dropped > 0 || paused.is_some() {
            let why = paused.unwrap_or_else(|| "the writer was behind".to_owned());
            tracing::warn!(file = %self.path.display(), flows_lost, snapshots_dropped, samples_lost, why, "the store is not complete");
        }
    }
}
