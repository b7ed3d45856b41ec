// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run that is being written: its row, and the calendar that dates its times.

use jiff::Timestamp;
use mpwatch_model::host::machine::Losses;
use mpwatch_model::kernel::clock;
use mpwatch_model::snapshot::Snapshot;

use super::limits::{Status, StoreLosses};
use crate::schema::rows::{RunRow, UNFINISHED};

/// Time between two updates of the row.
pub(super) const ROW_INTERVAL_NS: i64 = 10_000_000_000;

#[derive(Default)]
pub(crate) struct Run {
    pub(super) began: Option<Timestamp>,
    /// Calendar time of boot-clock zero, by which the times of this run are dated.
    boot_epoch_ns: Option<i64>,
    /// When the row was last written.
    pub(crate) row_written_ns: Option<i64>,
    /// All snapshots have arrived.
    pub(crate) has_ended: bool,
}

impl Run {
    /// Step of the calendar since the previous snapshot, in nanoseconds; 0 for the first one. `None`: the calendar was not set.
    pub(crate) fn clock_step(&self, snapshot: &Snapshot) -> Option<i64> {
        self.boot_epoch_ns.map_or(Some(0), |before| clock::step(before, snapshot.boot_epoch_ns))
    }

    /// Adds `by_ns` to all times of the run, which are then in the calendar of `snapshot`.
    pub(crate) fn shift(&mut self, by_ns: i64, snapshot: &Snapshot) {
        self.boot_epoch_ns = Some(snapshot.boot_epoch_ns);
        self.began = self.began.map(|at| clock::shifted(at, by_ns));
        self.row_written_ns = None;
    }

    pub(crate) fn row(&self, id: i64, snapshot: &Snapshot, status: &Status) -> RunRow {
        let StoreLosses { snapshots_dropped, flows_lost, samples_lost, .. } = status.losses;
        RunRow {
            id,
            host: snapshot.host.clone(),
            from: self.began.unwrap_or(snapshot.at),
            to: snapshot.at,
            boot_epoch_ns: self.boot_epoch_ns,
            losses: Losses {
                store_snapshots_dropped: 0,
                store_flows_lost: 0,
                store_samples_lost: 0,
                ..snapshot.losses
            },
            counters: snapshot.counters.clone(),
            cpus: snapshot.cpus.clone(),
            energy: snapshot.energy.clone(),
            snapshots_dropped,
            flows_lost,
            samples_lost,
            cut_short: if self.has_ended { status.cut_short.clone() } else { Some(UNFINISHED.to_owned()) },
            setup: (*snapshot.setup).clone(),
        }
    }
}
