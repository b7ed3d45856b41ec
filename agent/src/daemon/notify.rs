// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notifications to systemd (sd_notify(3)): datagrams to the socket in `NOTIFY_SOCKET`. Without systemd nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Sends a state, such as `READY=1`. A failure is only logged.
pub(super) fn send(state: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else {
        return;
    };
    if let Err(error) = send_to(&address, state) {
        tracing::warn!(%error, state, "cannot notify systemd");
    }
}

/// Time between two `WATCHDOG=1` notifications: half of systemd's limit. `None`: systemd does not watch this process.
pub(super) fn watchdog_interval() -> Option<Duration> {
    let limit = std::env::var("WATCHDOG_USEC").ok()?.parse().ok().map(Duration::from_micros)?;
    let is_for_us =
        std::env::var("WATCHDOG_PID").ok().is_none_or(|pid| pid == std::process::id().to_string());
    is_for_us.then_some(limit / 2)
}

fn send_to(address: &OsStr, state: &str) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A full receive queue must not block the daemon.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
