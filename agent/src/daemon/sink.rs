// SPDX-License-Identifier: MIT OR Apache-2.0
//! Destinations of the daemon's snapshots. A new destination is an implementation of [`SnapshotSink`] and a line in `daemon::run`.

use std::sync::Arc;

use mpwatch_model::host::machine::Losses;
use mpwatch_model::snapshot::Snapshot;

use crate::config::Config;

/// Receives every snapshot of the daemon, in order.
pub(crate) trait SnapshotSink {
    /// Called once per tick on the tracker's thread, so it must not wait: slow work belongs on another thread, behind a queue that drops
    /// and counts snapshots when it is full. A closed connection is in at least one snapshot with its final counters.
    fn consume(&mut self, snapshot: &Arc<Snapshot>);

    /// Adds the losses of this sink since the start to `losses`. Every snapshot reports them.
    fn add_losses(&self, _losses: &mut Losses) {}

    /// The configuration has changed (SIGHUP). Called before the next snapshot.
    fn configure(&mut self, _config: &Config) {}

    /// Called after the last snapshot. All sinks together must finish within 5 s.
    fn finish(&mut self) {}
}
