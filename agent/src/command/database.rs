// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--db FILE`: every connection also goes into a store. Trouble with it is said once and ends nothing but itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mpwatch_model::event::Start;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_store::{Beginning, Limits, Store};

/// A store that was asked for.
pub(super) struct Database {
    path: PathBuf,
    store: Store,
    is_paused: bool,
}

impl Database {
    /// Opens it, if there is to be one. Everything is kept: who names a file says what belongs there.
    pub(super) fn open(path: Option<&Path>, start: &Start) -> anyhow::Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let run = Beginning { boot_id: start.host.boot_id.clone(), at: start.began() };
        let store = Store::open_run(path, &Limits::none(), Some(&run))?;
        Ok(Some(Self { path: path.to_owned(), store, is_paused: false }))
    }

    /// Takes a snapshot as it comes; never waits.
    pub(super) fn offer(&mut self, snapshot: &Arc<Snapshot>) {
        self.store.offer(snapshot);
        self.tell();
    }

    /// Takes a snapshot that comes from a file, which can wait.
    pub(super) fn deliver(&mut self, snapshot: &Arc<Snapshot>) {
        self.store.deliver(snapshot);
        self.tell();
    }

    fn tell(&mut self) {
        let paused = self.store.losses().paused;
        match &paused {
            Some(why) if !self.is_paused => {
                eprintln!("mpwatch: {} is not being written: {why}", self.path.display());
            }
            None if self.is_paused => eprintln!("mpwatch: {} is written again", self.path.display()),
            _ => {}
        }
        self.is_paused = paused.is_some();
    }

    /// Ends it; an error where connections are not in it.
    pub(super) fn close(self) -> anyhow::Result<()> {
        let losses = self.store.close();
        let (flows, snapshots) = (losses.flows_lost, losses.snapshots_dropped);
        if flows > 0 || snapshots > 0 {
            let why = losses.paused.map(|why| format!(" ({why})")).unwrap_or_default();
            anyhow::bail!(
                "{} is not complete: {flows} connections could not be written, {snapshots} snapshots came too fast{why}",
                self.path.display()
            );
        }
        Ok(())
    }
}
