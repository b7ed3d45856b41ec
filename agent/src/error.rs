// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and the errors that exist only because they have one. `exit.rs` gives every error its code.

/// A command failed while it ran.
pub(crate) const RUNTIME: u8 = 1;
/// The command line or the configuration is wrong.
pub(crate) const USAGE: u8 = 2;
/// The kernel lacks something.
pub(crate) const KERNEL: u8 = 3;
/// A privilege is missing.
pub(crate) const PERMISSION: u8 = 4;
/// No connection has the requested id.
pub(crate) const NO_SUCH_CONNECTION: u8 = 5;

#[derive(Debug, thiserror::Error)]
#[error("no connection matches `{id}`; `mpwatch ls` lists the open connections")]
pub(crate) struct NoSuchConnection {
    pub(crate) id: String,
}

/// Calibration needs energy counters, and this process can read none.
#[derive(Debug, thiserror::Error)]
#[error("cannot calibrate: {reason}")]
pub(crate) struct NoEnergyCounters {
    pub(crate) reason: String,
}

impl NoEnergyCounters {
    /// Whether another user could read them.
    pub(crate) fn is_permission(&self) -> bool {
        self.reason.contains("permission denied")
    }
}
