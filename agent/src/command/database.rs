// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--db FILE`: every connection is also written into a database. Errors are reported once; the command continues.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mpwatch_model::kernel::event::Start;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_store::{Limits, RunStart, Store};

/// The database of a command, if a file was named.
pub(super) struct Database {
    path: PathBuf,
    store: Option<Store>,
    is_paused: bool,
}

impl Database {
    /// Opens the database, without limits of age and size, because the file belongs to the user.
    /// `samples`: time between two samples of a connection. `None`: it depends on the connection's age.
    pub(super) fn open(
        path: Option<&Path>,
        samples: Option<Duration>,
        start: &Start,
    ) -> anyhow::Result<Self> {
        let run = RunStart { boot_id: start.host.boot_id.clone(), at: start.began() };
        let limits = Limits { sample_step: samples, ..Limits::none() };
        let store = path.map(|path| Store::open_run(path, &limits, Some(&run))).transpose()?;
        Ok(Self { path: path.map(Path::to_owned).unwrap_or_default(), store, is_paused: false })
    }

    /// Writes a live snapshot; never waits.
    pub(super) fn offer(&mut self, snapshot: &Arc<Snapshot>) {
        self.write(|store| store.offer(snapshot));
    }

    /// Writes a snapshot of a recording; waits for the writer.
    pub(super) fn deliver(&mut self, snapshot: &Arc<Snapshot>) {
        self.write(|store| store.deliver(snapshot));
    }

    /// Prints when writing stops and when it continues.
    fn write(&mut self, write: impl FnOnce(&Store)) {
        let Some(store) = &self.store else { return };
        write(store);
        let paused = store.losses().paused;
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

    /// Closes the database. Fails if connections or snapshots are missing. `cut_short`: why the snapshots ended too early. `None`: they did not.
    pub(super) fn close(self, cut_short: Option<&str>) -> anyhow::Result<()> {
        let Some(store) = self.store else { return Ok(()) };
        if let Some(reason) = cut_short {
            store.set_cut_short(reason);
        }
        let losses = store.close();
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
