// SPDX-License-Identifier: MIT OR Apache-2.0
//! What systemd wants to hear (sd_notify(3)): a datagram to the socket that it names. Without systemd nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Tells systemd. A failure is worth a line, not an end.
pub(super) fn tell(state: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else {
        return;
    };
    if let Err(error) = send(&address, state) {
        tracing::warn!(%error, state, "systemd cannot be told");
    }
}

/// How often systemd wants to hear that we live: half the time after which it takes us for dead. `None`: it does not care.
pub(super) fn watchdog() -> Option<Duration> {
    let limit = std::env::var("WATCHDOG_USEC").ok()?.parse().ok().map(Duration::from_micros)?;
    let for_us = std::env::var("WATCHDOG_PID").ok().is_none_or(|pid| pid == std::process::id().to_string());
    for_us.then_some(limit / 2)
}

fn send(address: &OsStr, state: &str) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    // Who does not listen must not hold us up.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
