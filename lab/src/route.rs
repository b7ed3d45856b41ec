// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where packets go: a table per source address, so that every subflow keeps to its own path,
//! and plain routes. Which routes a network needs is `topology/routing.rs`.

use crate::error::Result;
use crate::link::Prefixed;
use crate::netns::Namespace;
use std::net::IpAddr;

/// A way out: through a gateway, or straight on the link when there is none.
#[derive(Clone, Copy, Debug)]
pub struct Exit<'a> {
    /// The interface to leave by.
    pub interface: &'a str,
    /// The next router, or `None` when the destination is on the link.
    pub gateway: Option<IpAddr>,
}

/// Routes and rules to be, put into a namespace by [`Routes::apply`].
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
    /// What leaves with the source address goes out by `exit`, by way of routing table `table` (1 to 252).
    #[must_use]
    pub fn from_source(mut self, source: IpAddr, table: u32, exit: Exit<'_>) -> Self {
        let whole = if source.is_ipv6() { "::/0" } else { "0.0.0.0/0" };
        let way = via(exit);
        self.rules.push(source, format!("rule add from {source} table {table}"));
        self.routes.push(source, format!("route replace {whole} {way} table {table}"));
        self
    }

    /// What goes to the prefix leaves by `exit`.
    #[must_use]
    pub fn to(mut self, destination: Prefixed, exit: Exit<'_>) -> Self {
        let Prefixed { address, length } = destination;
        let way = via(exit);
        self.routes.push(address, format!("route replace {address}/{length} {way}"));
        self
    }

    /// Puts rules and routes into a namespace.
    ///
    /// # Errors
    /// When a gateway cannot be reached or a rule exists already.
    pub fn apply(&self, namespace: &Namespace) -> Result<()> {
        self.rules.run(namespace)?;
        self.apply_without_rules(namespace)
    }

    /// Puts back the routes that an interface lost when it went down; rules stay through that.
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

fn via(exit: Exit<'_>) -> String {
    match exit.gateway {
        // onlink: the kernel would otherwise look the gateway up in the very table that is being replaced.
        Some(gateway) => format!("via {gateway} dev {} onlink", exit.interface),
        None => format!("dev {}", exit.interface),
    }
}
