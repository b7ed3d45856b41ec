// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network of a run: client and router joined by one fast link, router and server by rate-limited links.
//! [`Queue`] says how the links queue, [`Route`] how the router selects the link.

use std::net::{Ipv4Addr, SocketAddr};

use super::condition::{Condition, Queue, Route, Run};
use crate::command::{Program, output};
use crate::endpoint::{self, Endpoint, Limits, Purpose};
use crate::error::{Error, Result};
use crate::link::disable_offloads;
use crate::netns::Namespace;

/// Bytes that tbf sends at once.
const BURST: u32 = 16_384;
/// Size of a full Ethernet frame in bytes.
const FRAME: u32 = 1514;
/// Number of the first routing table of the router, one table per link.
const TABLE: usize = 10;
/// Number of the table with all links, counted from [`TABLE`].
const ECMP: usize = 100;
/// The fields that select the link: addresses, protocol and ports.
const ECMP_FIELDS: &str = "0x37";
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

    /// The server's port.
    pub(super) const PORT: u16 = 5001;

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

    /// Builds the network of a condition once, to find out whether the kernel has its queues.
    ///
    /// # Errors
    /// See [`Network::build`].
    pub fn check(condition: &Condition) -> Result<()> {
        let condition = condition.clone();
        Self::build(&Run { condition, connections: 1, round: 0, seed: 0, length_ms: 0 }).map(drop)
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
        if condition.queue == Queue::Rtt {
            network.delay_replies(&addresses)?;
        }
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
        let bytes = rate * 125 * buffer_ms;
        let root = format!("qdisc {verb} dev {port} root handle 1:");
        let tbf = format!("{root} tbf rate {rate}mbit burst {BURST} latency {buffer_ms}ms");
        let over =
            |child: &str| vec![tbf.clone(), format!("qdisc add dev {port} parent 1:1 handle 2: {child}")];
        let lines = match condition.queue {
            Queue::Fifo | Queue::Rtt => vec![tbf],
            Queue::Fair => fair(condition, &port, &root, rate, bytes),
            Queue::Policer => {
                return self.router.nft(&format!(
                    "add table ip corpus\nadd chain ip corpus forward {{ type filter hook forward priority 0; }}\n\
                     add rule ip corpus forward oifname {port} limit rate over {} bytes/second burst {bytes} bytes counter drop",
                    rate * 125_000
                ));
            }
            Queue::FqCodel => over("fq_codel"),
            Queue::Cake => vec![format!("{root} cake bandwidth {rate}mbit")],
            Queue::Sfq => over("sfq"),
            Queue::Red => over(&format!(
                "red limit {bytes} min {} max {} avpkt 1000 bandwidth {rate}mbit",
                bytes / 6,
                bytes / 2
            )),
        };
        self.router.tc(&lines)
    }

    /// Delays the packets to each client address after the first by 10 ms more than the packets to the address before it.
    fn delay_replies(&self, addresses: &[Ipv4Addr]) -> Result<()> {
        let mut lines = vec!["qdisc add dev client root handle 1: htb".to_owned()];
        for (number, address) in addresses.iter().enumerate().skip(1) {
            lines.extend([
                format!("class add dev client parent 1: classid 1:{number} htb rate 10gbit quantum {FRAME}"),
                format!("qdisc add dev client parent 1:{number} netem delay {}ms limit 100000", 10 * number),
                format!("filter add dev client parent 1: protocol ip prio 1 u32 match ip dst {address} classid 1:{number}"),
            ]);
        }
        self.router.tc(&lines)
    }

    fn select_links(&self, condition: &Condition, addresses: &[Ipv4Addr]) -> Result<()> {
        let rule = |address: Ipv4Addr, table: usize| format!("rule add from {address} table {table}");
        let of_address =
            |index| TABLE + if condition.route == Route::Ecmp { ECMP } else { condition.link(index) };
        let mut lines: Vec<String> =
            addresses.iter().enumerate().map(|(index, address)| rule(*address, of_address(index))).collect();
        lines.push(rule(Self::OTHER, TABLE));
        if condition.route == Route::Ecmp {
            // Policy 1 reads the sender's `skb->hash`, which changes after a retransmission timeout. Policy 3 reads the packet.
            self.router.sysctl("net.ipv4.fib_multipath_hash_policy", "3")?;
            self.router.sysctl("net.ipv4.fib_multipath_hash_fields", ECMP_FIELDS)?;
            let hops = (0..condition.links()).map(|link| format!(" nexthop via 10.60.{link}.2"));
            lines.push(format!("route add default table {}{}", TABLE + ECMP, hops.collect::<String>()));
        }
        self.router.ip(&lines)
    }

    /// Moves all addresses to link 0.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn switch(&self, condition: &Condition) -> Result<()> {
        // A later rule has precedence over the earlier ones.
        let rule = |index| format!("rule add from {} table {TABLE}", Self::client_address(index));
        self.router.ip(&(0..condition.addresses.into()).map(rule).collect::<Vec<_>>())
    }

    /// The link that the kernel selects for a subflow with this local address and port.
    ///
    /// # Errors
    /// If the kernel has no route.
    pub fn link_of(&self, local: SocketAddr) -> Result<usize> {
        let (address, port) = (local.ip(), local.port());
        let query = format!(
            "route get {} from {address} iif client ipproto tcp sport {port} dport {}",
            Self::SERVER,
            Self::PORT
        );
        let found = self.router.enter(|| output(Program::Ip, &query))??;
        let link = found.split_once(" dev link").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        link.ok_or(Error::Invalid {
            what: format!("route `{found}`"),
            advice: "expected a link of the corpus",
        })
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

/// Lines of `tc` for a class with its own queue per client address, and one for packets of other addresses. The queues hold `bytes` together.
fn fair(condition: &Condition, port: &str, root: &str, rate: u32, bytes: u32) -> Vec<String> {
    let (others, share) = (condition.addresses + 1, rate * 1_000 / (u32::from(condition.addresses) + 1));
    let mut lines = vec![
        format!("{root} htb default {others}"),
        format!(
            "class add dev {port} parent 1: classid 1:f htb rate {rate}mbit burst {BURST} cburst {BURST}"
        ),
    ];
    for number in 1..=others {
        lines.extend([
            format!("class add dev {port} parent 1:f classid 1:{number} htb rate {share}kbit ceil {rate}mbit quantum {FRAME}"),
            format!("qdisc add dev {port} parent 1:{number} pfifo limit {}", bytes / FRAME / u32::from(others)),
        ]);
        if number < others {
            let address = Network::client_address(usize::from(number) - 1);
            lines.push(format!("filter add dev {port} parent 1: protocol ip prio 1 u32 match ip src {address} classid 1:{number}"));
        }
    }
    lines
}
