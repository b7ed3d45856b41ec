// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network of a small data centre: hosts and switches are namespaces, links are veth pairs with a rate limit on both ends, and switches
//! use all shortest paths, chosen per flow (ECMP) or per packet. A host has an address per subflow, because the kernel opens only one
//! subflow between two addresses. ECMP selects the path of a subflow by a hash of addresses and ports.
//! Addresses: 10.HOST.0.SUBFLOW on hosts (hosts from 0, subflows from 1), 172.16.LINK.0/30 on links (from 0).

#![allow(clippy::cast_possible_truncation, reason = "parts of addresses are small, and a seed may lose bits")]

mod graph;

pub use graph::{FabricKind, HOSTS};

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use mpwatch_lab::endpoint::{self, Limits};
use mpwatch_lab::link::{self, InterfaceCounters, IpNet, RateLimit, VethEnd, VethSettings};
use mpwatch_lab::random::Random;
use mpwatch_lab::{Error, Namespace, Result, router};
use serde::{Deserialize, Serialize};

use graph::Graph;

/// How a switch chooses among several shortest paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Forwarding {
    /// By a hash of addresses and ports, so that all packets of a subflow take one path.
    PerFlow,
    /// Randomly for each packet (packet spraying). Needs the program `nft`.
    PerPacket,
}

/// The specification of a data centre's network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FabricSpec {
    /// The kind of graph.
    pub kind: FabricKind,
    /// Rate of a host's link, Mbit/s.
    pub mbit: f64,
    /// Maximum waiting time in a queue.
    pub queue: Duration,
    /// Number of subflows of a connection, 1 to 8.
    pub subflows: usize,
    /// Path selection of the switches.
    pub forwarding: Forwarding,
}

/// A running network. All its namespaces are removed when it is dropped.
#[derive(Debug)]
pub struct Fabric {
    nodes: Vec<Namespace>,
    graph: Graph,
}

/// Packet mark of the first of several paths; the marks of further paths follow. Mark N selects routing table [`TABLE_OFFSET`] + N.
const FIRST_MARK: usize = 1;
const TABLE_OFFSET: usize = 100;

impl Fabric {
    /// Builds the network. `seed` determines the hash functions of the nodes, which all differ.
    ///
    /// # Errors
    /// Without root, or if the kernel lacks a feature: hash functions per namespace need Linux 6.11.
    pub fn build(spec: &FabricSpec, seed: u64) -> Result<Self> {
        if !(1..=8).contains(&spec.subflows) {
            let what = format!("a network with {} subflows", spec.subflows);
            return Err(Error::Invalid { what, advice: "a host has 1 to 8 addresses" });
        }
        let graph = Graph::new(spec.kind);
        let name = |node: usize| {
            if node < HOSTS { format!("host{node}") } else { format!("switch{}", node - HOSTS) }
        };
        let nodes = (0..graph.nodes).map(|node| Namespace::new(&name(node))).collect::<Result<Vec<_>>>()?;
        let fabric = Self { nodes, graph };
        for (node, namespace) in fabric.nodes.iter().enumerate() {
            prepare(node, namespace, spec, seed)?;
        }
        for (nth, link) in fabric.graph.links.iter().enumerate() {
            let limit = RateLimit::mbit(spec.mbit * f64::from(link.rate), spec.queue);
            fabric.connect(nth, link.ends, limit)?;
        }
        fabric.add_routes(spec.forwarding)?;
        Ok(fabric)
    }

    fn connect(&self, nth: usize, ends: [usize; 2], limit: RateLimit) -> Result<()> {
        let names = ends.map(|node| interface(nth, node));
        let end = |side: usize| VethEnd {
            namespace: &self.nodes[ends[side]],
            interface: &names[side],
            addresses: vec![IpNet { address: on_link(nth, side), length: 30 }],
        };
        let veth = VethSettings { offloads: false, ..VethSettings::default() };
        link::create_veth_pair(&end(0), &end(1), veth)?;
        for side in [0, 1] {
            link::limit_rate(&self.nodes[ends[side]], &names[side], limit)?;
        }
        Ok(())
    }

    fn add_routes(&self, forwarding: Forwarding) -> Result<()> {
        let mut lines: Vec<Vec<String>> = vec![Vec::new(); self.graph.nodes];
        let mut most = vec![1; self.graph.nodes];
        for host in 0..HOSTS {
            let next_links = self.graph.next_links(host);
            for (node, links) in next_links.iter().enumerate().filter(|(node, _)| *node != host) {
                let hops: Vec<String> =
                    links.iter().map(|link| format!("via {}", self.opposite(*link, node))).collect();
                let all = if let [hop] = &hops[..] {
                    hop.clone()
                } else {
                    hops.iter().fold(String::new(), |text, hop| text + " nexthop " + hop)
                };
                lines[node].push(format!("route replace 10.{host}.0.0/24 {all}"));
                most[node] = most[node].max(hops.len());
                if forwarding == Forwarding::PerPacket && hops.len() > 1 {
                    let single = hops.iter().zip(TABLE_OFFSET + FIRST_MARK..);
                    lines[node].extend(
                        single.map(|(hop, table)| {
                            format!("route replace 10.{host}.0.0/24 {hop} table {table}")
                        }),
                    );
                }
            }
        }
        for (node, (lines, most)) in lines.iter().zip(most).enumerate() {
            self.nodes[node].ip(lines)?;
            if forwarding == Forwarding::PerPacket && most > 1 {
                spray(&self.nodes[node], most)?;
            }
        }
        Ok(())
    }

    fn opposite(&self, link: usize, node: usize) -> IpAddr {
        on_link(link, usize::from(self.graph.links[link].ends[0] == node))
    }

    /// The host `index`, from 0.
    ///
    /// # Errors
    /// If there is no such host.
    pub fn host(&self, index: usize) -> Result<&Namespace> {
        self.nodes.get(index).filter(|_| index < HOSTS).ok_or_else(|| Error::Invalid {
            what: format!("there is no host {index}"),
            advice: "hosts count from 0 to 15",
        })
    }

    /// Names of the namespaces of all hosts.
    pub fn host_names(&self) -> impl Iterator<Item = &str> {
        self.nodes[..HOSTS].iter().map(Namespace::name)
    }

    /// Bytes that each core switch has received so far.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn core_bytes(&self) -> Result<Vec<u64>> {
        let received = |switch: usize| {
            let links = self.graph.neighbours(switch);
            links
                .map(|(link, _)| {
                    InterfaceCounters::read(&self.nodes[switch], &interface(link, switch))
                        .map(|counters| counters.rx_bytes)
                })
                .sum()
        };
        self.graph.core.clone().map(received).collect()
    }
}

/// Sets the sysctls of a node and, on a host, adds addresses and endpoints.
fn prepare(node: usize, namespace: &Namespace, spec: &FabricSpec, seed: u64) -> Result<()> {
    router::prepare(namespace)?;
    // Hash addresses, protocol and ports. With policy 1, all nodes would use the sending socket's hash and so make the same choice.
    namespace.sysctl("net.ipv4.fib_multipath_hash_policy", "3")?;
    namespace.sysctl("net.ipv4.fib_multipath_hash_fields", "55")?;
    // With the same hash function in all switches, all flows that arrive over one link would also leave over one link.
    let hash = Random::new(seed ^ node as u64).bits() as u32 | 1;
    namespace.sysctl("net.ipv4.fib_multipath_hash_seed", &hash.to_string())?;
    if node >= HOSTS {
        return Ok(());
    }
    namespace.sysctl("net.mptcp.enabled", "1")?;
    let addresses: Vec<IpNet> =
        (0..spec.subflows).map(|nth| IpNet { address: address(node, nth), length: 32 }).collect();
    link::add_addresses(namespace, "lo", &addresses)?;
    endpoint::set_limits(namespace, Limits { subflows: 8, add_addr_accepted: 0 })?;
    let lines: Vec<String> = (1..spec.subflows)
        .map(|nth| format!("mptcp endpoint add {} id {} subflow", address(node, nth), nth + 1))
        .collect();
    namespace.ip(&lines)
}

/// The address that subflow `subflow` of host `host` uses. Both numbers start at 0.
#[must_use]
pub fn address(host: usize, subflow: usize) -> IpAddr {
    Ipv4Addr::new(10, host as u8, 0, subflow as u8 + 1).into()
}

fn on_link(link: usize, side: usize) -> IpAddr {
    Ipv4Addr::new(172, 16, link as u8, side as u8 + 1).into()
}

fn interface(link: usize, node: usize) -> String {
    format!("link{link}-{node}")
}

/// Sends each packet over a random path: a random mark selects one of several routing tables. For a destination with several paths, each
/// table has a different next hop.
fn spray(namespace: &Namespace, paths: usize) -> Result<()> {
    let rules =
        (FIRST_MARK..=paths).map(|mark| format!("rule add fwmark {mark} table {}", TABLE_OFFSET + mark));
    namespace.ip(&rules.collect::<Vec<_>>())?;
    let mut table =
        String::from("table ip spray { chain prerouting { type filter hook prerouting priority mangle; ");
    let _ = write!(table, "meta mark set numgen random mod {paths} offset {FIRST_MARK}; }}; }}");
    namespace.nft(&table)
}
