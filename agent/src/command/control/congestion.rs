// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch control congestion`: registers `mptcpd` while it runs.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::cli::CongestionOptions;
use crate::command::output::print;
use crate::congestion;
use crate::signals::stop_flag;

/// Maximum time until a signal is noticed.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn run(options: &CongestionOptions) -> anyhow::Result<()> {
    let stop = stop_flag()?;
    let registration = congestion::register()?;
    if !options.quiet {
        print(&congestion::usage(&registration))?;
    }
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(STOP_CHECK_INTERVAL);
    }
    registration.end();
    if !options.quiet {
        print("mptcpd is unregistered. Sockets that use it keep it until they close.")?;
    }
    Ok(())
}
