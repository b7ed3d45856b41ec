// SPDX-License-Identifier: MIT OR Apache-2.0
//! Complete test networks: a client and a server connected by several paths, each with its own rate, queue, delay, jitter
//! and loss. Paths may share bottlenecks. MPTCP endpoints make connections use all paths.
//! `spec.rs` describes a network, `segment.rs` builds one link of a network, `path.rs` makes a path fail.

mod network;
mod path;
mod plan;
mod routing;
mod segment;
mod spec;

pub use path::{Path, PathFailure};
pub use spec::{Family, JoinBy, LinkSpec, PathSpec, TopologySpec};

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use crate::endpoint::{self, Endpoint, Limits, Purpose};
use crate::error::{Error, Result};
use crate::impairer::Direction;
use crate::link::QueueCounters;
use crate::netns::Namespace;
use crate::router;
use crate::traffic::{TrafficSpec, Workload};
use network::Network;
use segment::Segment;

/// A running network. All its namespaces and threads are removed when it is dropped.
#[derive(Debug)]
pub struct Topology {
    network: Network,
}

/// Maximum number of endpoints in a namespace (MPTCP_PM_ADDR_MAX).
const MAX_ENDPOINTS: usize = 8;

impl Topology {
    /// Builds a network of two disjoint paths.
    ///
    /// # Errors
    /// As [`Topology::build`].
    pub fn two_paths(first: LinkSpec, second: LinkSpec) -> Result<Self> {
        Self::disjoint(&[first, second])
    }

    /// Builds a network of disjoint paths.
    ///
    /// # Errors
    /// As [`Topology::build`].
    pub fn disjoint(links: &[LinkSpec]) -> Result<Self> {
        let paths = links.iter().map(|link| PathSpec { link: *link, ..PathSpec::default() });
        Self::build(&TopologySpec { paths: paths.collect(), ..TopologySpec::default() })
    }

    /// Builds a network with a path per access link. All paths share one bottleneck.
    ///
    /// # Errors
    /// As [`Topology::build`].
    pub fn shared(access_links: &[LinkSpec], bottleneck: LinkSpec) -> Result<Self> {
        let paths = access_links.iter().map(|link| PathSpec {
            link: *link,
            bottleneck: Some(0),
            ..PathSpec::default()
        });
        Self::build(&TopologySpec {
            paths: paths.collect(),
            bottlenecks: vec![bottleneck],
            ..TopologySpec::default()
        })
    }

    /// Builds the specified network.
    ///
    /// # Errors
    /// If the specification is invalid, without root, or if the kernel lacks a feature.
    pub fn build(spec: &TopologySpec) -> Result<Self> {
        spec.check()?;
        let (client, server) = (Namespace::new("client")?, Namespace::new("server")?);
        let mut network = Network {
            paths: Vec::new(),
            bottlenecks: Vec::new(),
            cores: Vec::new(),
            client,
            server,
            spec: spec.clone(),
        };
        for namespace in [&network.client, &network.server] {
            prepare_host(namespace, spec.quick_timeouts)?;
        }
        add_segments(&mut network)?;
        routing::add_routes(&network)?;
        let topology = Self { network };
        topology.add_endpoints()?;
        topology.resolve_neighbours()?;
        Ok(topology)
    }

    /// Sends a datagram over each path and waits for the ICMP error, so that the kernel has resolved all link-layer addresses
    /// and no handshake waits for the resolution.
    fn resolve_neighbours(&self) -> Result<()> {
        const DISCARD_PORT: u16 = 9;
        let ends: Vec<_> = self.paths().map(|path| (path.client_address(), path.server_address())).collect();
        let send_datagrams = || {
            ends.iter().try_for_each(|&(client, server)| -> io::Result<()> {
                let socket = UdpSocket::bind((client, 0))?;
                socket.connect((server, DISCARD_PORT))?;
                socket.set_read_timeout(Some(Duration::from_secs(1)))?;
                socket.send(&[0])?;
                // Normally fails with ECONNREFUSED. A timeout is harmless: only the first handshake is slower.
                let _ = socket.recv(&mut [0]);
                Ok(())
            })
        };
        let client = self.client();
        client.enter(send_datagrams)?.map_err(Error::os("reach the server from", client.name()))
    }

    fn add_endpoints(&self) -> Result<()> {
        let signal = self.network.spec.join == JoinBy::ServerSignal;
        let add_addr_accepted = if signal { 8 } else { 0 };
        endpoint::set_limits(self.client(), Limits { subflows: 8, add_addr_accepted })?;
        endpoint::set_limits(self.server(), Limits { subflows: 8, add_addr_accepted: 0 })?;
        // The server does not announce the first path. The client has an endpoint for it, if the limit allows: tests delete this endpoint.
        let without_first = signal || self.network.paths.len() > MAX_ENDPOINTS;
        for path in self.paths().skip(usize::from(without_first)) {
            let (namespace, interface, address) = if signal {
                (self.server(), path.server_interface(), path.server_address())
            } else {
                (self.client(), path.client_interface(), path.client_address())
            };
            let purpose = match (signal, path.spec().backup) {
                (false, false) => Purpose::Subflow,
                (false, true) => Purpose::BackupSubflow,
                (true, false) => Purpose::Signal,
                (true, true) => Purpose::BackupSignal,
            };
            endpoint::add(namespace, Endpoint { id: path.endpoint_id(), address, purpose }, interface)?;
        }
        Ok(())
    }

    /// The client's namespace.
    #[must_use]
    pub fn client(&self) -> &Namespace {
        &self.network.client
    }

    /// The server's namespace.
    #[must_use]
    pub fn server(&self) -> &Namespace {
        &self.network.server
    }

    /// All paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = Path<'_>> {
        (0..self.network.paths.len()).filter_map(|index| Path::new(&self.network, index))
    }

    /// Path `index`, from 0.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn path(&self, index: usize) -> Result<Path<'_>> {
        Path::new(&self.network, index).ok_or_else(|| Error::Invalid {
            what: format!("there is no path {index}"),
            advice: "paths count from 0",
        })
    }

    /// A specification of one MPTCP connection from the client's to the server's address on the first path.
    ///
    /// # Errors
    /// Never: a topology has at least one path.
    pub fn traffic(&self, workload: Workload) -> Result<TrafficSpec> {
        let first = self.path(0)?;
        let mut spec = TrafficSpec::new(first.server_address(), workload);
        spec.client = Some(first.client_address());
        Ok(spec)
    }

    /// The queue of a shared bottleneck. `None`: no rate limit in this direction, or no such bottleneck.
    ///
    /// # Errors
    /// If the counters of the queue cannot be read.
    pub fn bottleneck_queue(&self, index: usize, direction: Direction) -> Result<Option<QueueCounters>> {
        self.network.bottlenecks.get(index).map_or(Ok(None), |segment| segment.queue(direction))
    }

    /// Namespace and interface of the queue of a shared bottleneck. `None`: no rate limit in this direction, or no such bottleneck.
    #[must_use]
    pub fn bottleneck_queue_port(
        &self,
        index: usize,
        direction: Direction,
    ) -> Option<(&Namespace, &'static str)> {
        self.network.bottlenecks.get(index)?.queue_port(direction)
    }
}

fn add_segments(network: &mut Network) -> Result<()> {
    let offloads = network.spec.is_plain();
    for (index, link) in network.spec.bottlenecks.iter().enumerate() {
        let core = Namespace::new("core")?;
        router::prepare(&core)?;
        let number = plan::bottleneck_number(index);
        network.bottlenecks.push(Segment::build(&core, &network.server, number, link, offloads)?);
        network.cores.push(core);
    }
    for (index, path) in network.spec.paths.iter().enumerate() {
        let far = path.bottleneck.and_then(|index| network.cores.get(index)).unwrap_or(&network.server);
        let number = plan::path_number(index);
        network.paths.push(Segment::build(&network.client, far, number, &path.link, offloads)?);
    }
    Ok(())
}

fn prepare_host(namespace: &Namespace, quick_timeouts: bool) -> Result<()> {
    router::accept_any_source(namespace)?;
    namespace.sysctl("net.mptcp.enabled", "1")?;
    // Without this sysctl, an interface that goes down loses its IPv6 addresses.
    namespace.sysctl("net.ipv6.conf.default.keep_addr_on_down", "1")?;
    // Churn workloads open tens of thousands of connections per minute between two addresses.
    namespace.sysctl("net.ipv4.ip_local_port_range", "10000 65535")?;
    namespace.sysctl("net.ipv4.tcp_tw_reuse", "1")?;
    if quick_timeouts {
        namespace.sysctl("net.ipv4.tcp_retries2", "5")?;
        namespace.sysctl("net.ipv4.tcp_syn_retries", "2")?;
        namespace.sysctl("net.ipv4.tcp_orphan_retries", "2")?;
    }
    Ok(())
}
