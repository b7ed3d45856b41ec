// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's log on standard error: one line per change of state, none per traced event.

use std::io;

use crate::config::Config;

pub(super) fn start(config: &Config) {
    let has_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let builder = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        // Reporting a failed write (full disk, closed pipe) would write to standard error too, fail again, and panic.
        .log_internal_errors(false)
        .with_max_level(config.log_level);
    // Fails only on a second start in one process.
    let _ = match (config.log_json, has_journal) {
        (true, _) => builder.json().flatten_event(true).try_init(),
        // systemd's journal adds the time itself.
        (false, true) => builder.without_time().try_init(),
        (false, false) => builder.try_init(),
    };
}
