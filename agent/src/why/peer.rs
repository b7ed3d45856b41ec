// SPDX-License-Identifier: MIT OR Apache-2.0
//! The peer that a user asks about.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use anyhow::Context as _;

/// ADDRESS, ADDRESS:PORT, HOST or HOST:PORT.
pub(crate) fn parse_peer(text: &str) -> anyhow::Result<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((address.to_canonical(), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((address.ip().to_canonical(), Some(address.port())));
    }
    let (host, port) = text.rsplit_once(':').map_or((text, None), |(host, port)| (host, port.parse().ok()));
    let found = (host, port.unwrap_or(0)).to_socket_addrs();
    let found = found.with_context(|| format!("`{host}` has no address; use ADDRESS or ADDRESS:PORT"))?;
    let first = found.map(|address| address.ip()).next();
    Ok((first.with_context(|| format!("`{host}` has no address"))?, port))
}
