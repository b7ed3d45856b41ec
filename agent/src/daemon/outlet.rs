// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where snapshots go. One more way out is one more implementation, and a line in the list of `daemon::run`.

use std::sync::Arc;

use mpwatch_model::host::Losses;
use mpwatch_model::snapshot::Snapshot;

use crate::config::Config;

/// Takes every snapshot of the daemon, in order.
pub(crate) trait Outlet {
    /// Once a tick, on the tracker's thread: must not wait. What takes time is handed to a thread of the outlet's own, by a queue that
    /// drops and counts when it is full. A connection that closed is in at least one snapshot with its finals.
    fn take(&mut self, snapshot: &Arc<Snapshot>);

    /// Adds what this way out has lost so far: every snapshot says it.
    fn add_losses(&self, _losses: &mut Losses) {}

    /// The configuration has changed (SIGHUP); before the next snapshot.
    fn configure(&mut self, _config: &Config) {}

    /// The last snapshot has been taken; flows that are open stay as they were in it. All outlets together have 5 s.
    fn finish(&mut self) {}
}
