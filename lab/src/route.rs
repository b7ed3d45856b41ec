// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes and policy rules. Each source address has its own routing table, so that every subflow stays on its path.
//! `topology/routing.rs` decides which routes a network needs.

use crate::error::Result;
use crate::link::IpNet;
use crate::netns::Namespace;
use std::net::IpAddr;

/// The next hop of a route.
#[derive(Clone, Copy, Debug)]
pub struct NextHop<'a> {
    /// The outgoing interface.
    pub interface: &'a str,
    /// The next router. `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
}

/// Routes and rules. [`Routes::apply`] adds them to a namespace.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    rules: Lines,
    routes: Lines,
}

/// `ip` commands by family.
#[derive(Clone, Debug, Default)]
struct Lines {
    four: Vec<String>,
    six: Vec<String>,
}

impl Routes {
    /// Sends packets with the source address `source` to `next_hop`. Uses routing table `table` (1 to 252).
    #[must_use]
    pub fn from_source(mut self, source: IpAddr, table: u32, next_hop: NextHop<'_>) -> Self {
        let any = if source.is_ipv6() { "::/0" } else { "0.0.0.0/0" };
        let via = via(next_hop);
        self.rules.push(source, format!("rule add from {source} table {table}"));
        self.routes.push(source, format!("route replace {any} {via} table {table}"));
        self
    }

    /// Sends packets for `destination` to `next_hop`.
    #[must_use]
    pub fn to(mut self, destination: IpNet, next_hop: NextHop<'_>) -> Self {
        let IpNet { address, length } = destination;
        let via = via(next_hop);
        self.routes.push(address, format!("route replace {address}/{length} {via}"));
        self
    }

    /// Adds rules and routes to a namespace.
    ///
    /// # Errors
    /// If a gateway cannot be reached or a rule exists already.
    pub fn apply(&self, namespace: &Namespace) -> Result<()> {
        self.rules.run(namespace)?;
        self.apply_without_rules(namespace)
    }

    /// Adds only the routes: when an interface goes down, the kernel drops its routes but not the rules.
    pub(crate) fn apply_without_rules(&self, namespace: &Namespace) -> Result<()> {
        self.routes.run(namespace)
    }
}

impl Lines {
    fn push(&mut self, family_of: IpAddr, line: String) {
        if family_of.is_ipv6() {
            self.six.push(line);
        } else {
            self.four.push(line);
        }
    }

    fn run(&self, namespace: &Namespace) -> Result<()> {
        namespace.ip(&self.four)?;
        namespace.ip6(&self.six)
    }
}

fn via(next_hop: NextHop<'_>) -> String {
    match next_hop.gateway {
        // Without `onlink`, the kernel would search the gateway in the table that this command fills.
        Some(gateway) => format!("via {gateway} dev {} onlink", next_hop.interface),
        None => format!("dev {}", next_hop.interface),
    }
}
