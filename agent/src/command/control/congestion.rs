// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch control congestion`: registers `mptcpd` while it runs.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use mpwatch_control::congestion::{NAME, Registration, register};

use crate::command::output::print;
use crate::error::Failure;
use crate::system::stop_flag;

/// Time between two checks of the stop flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub(in crate::command) fn run(quiet: bool) -> anyhow::Result<()> {
    let stop = stop_flag()?;
    let registration = register().map_err(Failure::from)?;
    if !quiet {
        print(&usage(&registration))?;
    }
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(STOP_CHECK_INTERVAL);
    }
    registration.end();
    if !quiet {
        print("mptcpd is unregistered. Sockets that use it keep it until they close.")?;
    }
    Ok(())
}

/// Explains how sockets select `mptcpd`, and when the congestion control is unregistered.
fn usage(registration: &Registration) -> String {
    let end = if registration.ends_with_process() {
        "Ctrl-C unregisters it; sockets that use it keep it until they close."
    } else {
        "Ctrl-C or SIGTERM unregisters it; sockets that use it keep it until they close. This kernel (before 6.4) does not unregister it if this \
         process is killed."
    };
    format!(
        "The congestion control `{NAME}` is registered in all network namespaces, and used where it is selected, for:
  one socket       setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, \"{NAME}\", 6) before connect() or on the listener
  one namespace    sysctl net.ipv4.tcp_congestion_control={NAME}
  one destination  ip route change PREFIX ... congctl {NAME}
{end}"
    )
}
