// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--db FILE`: every connection is also written into a database. Errors are reported once and end nothing else.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mpwatch_model::kernel::event::Start;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_store::{Limits, RunStart, Store};

/// An open database.
pub(super) struct Database {
    path: PathBuf,
    store: Store,
    is_paused: bool,
}

impl Database {
    /// Opens it. `None`: no file was named. Everything is kept: the user who names the file decides what it holds.
    /// `samples`: time between two samples of a connection; by default it depends on the connection's age.
    pub(super) fn open(
        path: Option<&Path>,
        samples: Option<Duration>,
        start: &Start,
    ) -> anyhow::Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let run = RunStart { boot_id: start.host.boot_id.clone(), at: start.began() };
        let limits = Limits { sample_step: samples, ..Limits::none() };
        let store = Store::open_run(path, &limits, Some(&run))?;
        Ok(Some(Self { path: path.to_owned(), store, is_paused: false }))
    }

    /// Writes a live snapshot; never waits.
    pub(super) fn offer(&mut self, snapshot: &Arc<Snapshot>) {
        self.store.offer(snapshot);
        self.report();
    }

    /// Writes a snapshot that is made from a recording; waits for the writer.
    pub(super) fn deliver(&mut self, snapshot: &Arc<Snapshot>) {
        self.store.deliver(snapshot);
        self.report();
    }

    /// Prints when writing stops and when it continues.
    fn report(&mut self) {
        let paused = self.store.losses().paused;
        let path = self.path.display();
        // Standard error may be on the same full disk.
        let _ = match &paused {
            Some(why) if !self.is_paused => {
                writeln!(io::stderr(), "mpwatch: {path} is not being written: {why}")
            }
            None if self.is_paused => writeln!(io::stderr(), "mpwatch: {path} is written again"),
            _ => Ok(()),
        };
        self.is_paused = paused.is_some();
    }

    /// Closes it; an error if connections are missing. `cut_short`: why the source of the snapshots ended too early.
    pub(super) fn close(self, cut_short: Option<&str>) -> anyhow::Result<()> {
        if let Some(reason) = cut_short {
            self.store.set_cut_short(reason);
        }
        let losses = self.store.close();
        let (flows, snapshots) = (losses.flows_lost, losses.snapshots_dropped);
        if flows > 0 || snapshots > 0 {
            let why = losses.paused.map(|why| format!(" ({why})")).unwrap_or_default();
            anyhow::bail!(
                "{} is not complete: {flows} connections could not be written, {snapshots} snapshots were skipped{why}",
                self.path.display()
            );
        }
        Ok(())
    }
}
