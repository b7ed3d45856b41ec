// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configures namespaces as routers.

use crate::error::Result;
use crate::netns::Namespace;

/// Makes a namespace forward IPv4 and IPv6 packets.
///
/// # Errors
/// If a sysctl cannot be written.
pub fn prepare(namespace: &Namespace) -> Result<()> {
    accept_any_source(namespace)?;
    namespace.sysctl("net.ipv4.ip_forward", "1")?;
    namespace.sysctl("net.ipv6.conf.all.forwarding", "1")
}

/// Disables the reverse-path filter, which would drop packets of paths with asymmetric routes.
pub(crate) fn accept_any_source(namespace: &Namespace) -> Result<()> {
    namespace.sysctl("net.ipv4.conf.all.rp_filter", "0")?;
    namespace.sysctl("net.ipv4.conf.default.rp_filter", "0")
}
