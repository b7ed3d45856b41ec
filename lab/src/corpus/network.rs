// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network of a run: client and router joined by one fast link, router and server by a rate-limited link (tbf) for each queue. The
//! router selects the link by the source address.

use std::net::Ipv4Addr;

use super::condition::{Condition, Run};
use crate::command::{Program, batch};
use crate::endpoint::{self, Endpoint, Limits, Purpose};
use crate::error::Result;
use crate::link::disable_offloads;
use crate::netns::Namespace;

/// Bytes that tbf sends at once.
const BURST: u32 = 16_384;
/// Number of the first routing table of the router.
const TABLE: usize = 10;
/// The interface of a client towards the router.
const CLIENT_PORT: &str = "uplink";

/// The network of a run. Its namespaces are removed when it is dropped.
#[derive(Debug)]
pub struct Network {
    /// The recorded host.
    pub client: Namespace,
    /// Sends cross traffic that is not recorded.
    pub other: Namespace,
    /// Owns the queues.
    pub router: Namespace,
    /// The receiver.
    pub server: Namespace,
}

impl Network {
    /// The server's address.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 70, 0, 1);

    /// The client's address with this index, counted from 0.
    #[must_use]
    pub fn client_address(index: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 50, 0, index as u8 + 1)
    }

    /// The other client's address, whose packets cross link 0.
    pub const OTHER: Ipv4Addr = Ipv4Addr::new(10, 51, 0, 1);

    /// The router's interface on a link, with the link's queue (handle `1:`).
    #[must_use]
    pub fn queue_port(link: usize) -> String {
        format!("link{link}")
    }

    /// Builds the network.
    ///
    /// # Errors
    /// Without root, or if the kernel lacks a feature.
    pub fn build(run: &Run) -> Result<Self> {
        let condition = &run.condition;
        let network = Self {
            client: Namespace::new("corpus-client")?,
            other: Namespace::new("corpus-other")?,
            router: Namespace::new("corpus-router")?,
            server: Namespace::new("corpus-server")?,
        };
        for namespace in [&network.router, &network.server] {
            namespace.sysctl("net.ipv4.ip_forward", "1")?;
            namespace.sysctl("net.ipv4.conf.all.rp_filter", "0")?;
            namespace.sysctl("net.ipv4.conf.default.rp_filter", "0")?;
        }
        let addresses: Vec<_> = (0..condition.addresses.into()).map(Self::client_address).collect();
        network.connect(&network.client, "client", &addresses, Ipv4Addr::new(10, 50, 0, 254))?;
        network.connect(&network.other, "other", &[Self::OTHER], Ipv4Addr::new(10, 51, 0, 254))?;
        for link in 0..condition.links() {
            network.add_link(condition, link)?;
        }
        network.server.ip(&[
            format!("address add {}/32 dev lo", Self::SERVER),
            "route add 10.50.0.0/15 via 10.60.0.1".to_owned(),
        ])?;
        network.select_links(condition, &addresses)?;
        network.add_endpoints(&addresses)?;
        Ok(network)
    }

    /// Joins a client and the router by a fast link.
    fn connect(
        &self,
        client: &Namespace,
        port: &str,
        addresses: &[Ipv4Addr],
        gateway: Ipv4Addr,
    ) -> Result<()> {
        let name = self.router.name();
        let mut lines = vec![
            format!("link add {CLIENT_PORT} type veth peer name {port} netns {name}"),
            format!("link set dev {CLIENT_PORT} up"),
        ];
        lines.extend(addresses.iter().map(|address| format!("address add {address}/24 dev {CLIENT_PORT}")));
        // The default route needs a link with carrier, so it is added after the router's end is up.
        client.ip(&lines)?;
        self.router
            .ip(&[format!("link set dev {port} up"), format!("address add {gateway}/24 dev {port}")])?;
        client.ip(&[format!("route add default via {gateway}")])?;
        disable_offloads(client, CLIENT_PORT)?;
        disable_offloads(&self.router, port)
    }

    /// Joins router and server by a link with a rate limit from router to server.
    fn add_link(&self, condition: &Condition, link: usize) -> Result<()> {
        let port = Self::queue_port(link);
        self.router.ip(&[
            format!("link add {port} type veth peer name {port} netns {}", self.server.name()),
            format!("link set dev {port} up"),
            format!("address add 10.60.{link}.1/24 dev {port}"),
        ])?;
        self.server
            .ip(&[format!("link set dev {port} up"), format!("address add 10.60.{link}.2/24 dev {port}")])?;
        self.router.ip(&[format!("route add default via 10.60.{link}.2 table {}", TABLE + link)])?;
        disable_offloads(&self.router, &port)?;
        disable_offloads(&self.server, &port)?;
        self.limit(condition, link, "add", condition.buffer_ms)
    }

    /// Changes the length of a link's queue.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn set_buffer(&self, condition: &Condition, link: usize, buffer_ms: u32) -> Result<()> {
        self.limit(condition, link, "replace", buffer_ms)
    }

    fn limit(&self, condition: &Condition, link: usize, verb: &str, buffer_ms: u32) -> Result<()> {
        let (port, rate) = (Self::queue_port(link), condition.rate(link));
        let limit = format!(
            "qdisc {verb} dev {port} root handle 1: tbf rate {rate}mbit burst {BURST} latency {buffer_ms}ms"
        );
        self.router.enter(|| batch(Program::Tc, &[limit]))?
    }

    fn select_links(&self, condition: &Condition, addresses: &[Ipv4Addr]) -> Result<()> {
        let rule = |address: Ipv4Addr, link: usize| format!("rule add from {address} table {}", TABLE + link);
        let mut rules: Vec<String> = addresses
            .iter()
            .enumerate()
            .map(|(index, address)| rule(*address, condition.link(index)))
            .collect();
        rules.push(rule(Self::OTHER, 0));
        self.router.ip(&rules)
    }

    /// The first address opens connections; each further address adds a subflow.
    fn add_endpoints(&self, addresses: &[Ipv4Addr]) -> Result<()> {
        for namespace in [&self.client, &self.server] {
            endpoint::set_limits(namespace, Limits { subflows: 8, add_addr_accepted: 0 })?;
        }
        for (id, address) in (2_u8..).zip(&addresses[1..]) {
            let endpoint = Endpoint { id, address: (*address).into(), purpose: Purpose::Subflow };
            endpoint::add(&self.client, endpoint, CLIENT_PORT)?;
        }
        Ok(())
    }
}
