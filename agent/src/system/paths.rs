// SPDX-License-Identifier: MIT OR Apache-2.0
//! Default paths of the files that the daemon and the commands share.

/// Configuration of the daemon; read if it exists.
pub(crate) const CONFIG: &str = "/etc/mpwatch/mpwatch.toml";
/// The daemon's database, which `report` reads.
pub(crate) const DATABASE: &str = "/var/lib/mpwatch/flows.db";
/// Unix socket on which the daemon serves `top`, `ls` and `show`.
pub(crate) const SOCKET: &str = "/run/mpwatch/mpwatch.sock";
/// Power curve of the machine, written by `mpwatch calibrate`.
pub(crate) const POWER_CURVE: &str = "/var/lib/mpwatch/power.toml";
