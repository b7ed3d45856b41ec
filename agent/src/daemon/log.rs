// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's log, on standard error: a line for each change of state, none for each event.

use std::io;

use crate::config::Config;

/// From now on. Under systemd the journal adds the time itself.
pub(super) fn start(config: &Config) {
    let has_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let builder = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(config.log_level);
    // A second start, which only tests could do, changes nothing.
    let _ = match (config.log_json, has_journal) {
        (true, _) => builder.json().flatten_event(true).try_init(),
        (false, true) => builder.without_time().try_init(),
        (false, false) => builder.try_init(),
    };
}
