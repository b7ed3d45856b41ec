// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ready-made networks: a client and a server joined by several paths, each with its own rate, queue, delay,
//! jitter and loss, optionally meeting in shared bottlenecks; with MPTCP endpoints so that connections use them all.
//! What to ask for is `spec.rs`, how one stretch of network is built `segment.rs`, how a path dies `path.rs`.

mod path;
mod plan;
mod routing;
mod segment;
mod spec;

pub use path::{How, Path};
pub use spec::{Family, JoinBy, PathSpec, Quality, TopologySpec};

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use crate::endpoint::{self, Endpoint, Limits, Purpose};
use crate::error::{Error, Result};
use crate::impairer::Direction;
use crate::link::{QueueCounters, QueueWatch};
use crate::netns::Namespace;
use crate::traffic::{Spec, Workload};
use segment::Segment;

/// A running network; dropping it removes everything.
// Fields drop in this order: relays stop before the namespaces of their wires go.
#[derive(Debug)]
pub struct Topology {
    paths: Vec<Segment>,
    bottlenecks: Vec<Segment>,
    cores: Vec<Namespace>,
    client: Namespace,
    server: Namespace,
    spec: TopologySpec,
}

/// Endpoints that the kernel has room for in a namespace (MPTCP_PM_ADDR_MAX).
const MOST_ENDPOINTS: usize = 8;

impl Topology {
    /// Two paths of their own each.
    ///
    /// # Errors
    /// As [`Topology::build`].
    pub fn two_paths(first: Quality, second: Quality) -> Result<Self> {
        Self::disjoint(&[first, second])
    }

    /// Several paths that share nothing.
    ///
    /// # Errors
    /// As [`Topology::build`].
    pub fn disjoint(qualities: &[Quality]) -> Result<Self> {
        let paths = qualities.iter().map(|quality| PathSpec { quality: *quality, ..PathSpec::default() });
        Self::build(&TopologySpec { paths: paths.collect(), ..TopologySpec::default() })
    }

    /// One access link for each of `accesses`, all meeting in one bottleneck.
    ///
    /// # Errors
    /// As [`Topology::build`].
    pub fn shared(accesses: &[Quality], bottleneck: Quality) -> Result<Self> {
        let paths = accesses.iter().map(|quality| PathSpec {
            quality: *quality,
            bottleneck: Some(0),
            ..PathSpec::default()
        });
        Self::build(&TopologySpec {
            paths: paths.collect(),
            bottlenecks: vec![bottleneck],
            ..TopologySpec::default()
        })
    }

    /// Builds any network.
    ///
    /// # Errors
    /// For a specification that makes no sense, without root, or when the kernel lacks a part.
    pub fn build(spec: &TopologySpec) -> Result<Self> {
        spec.check()?;
        let (client, server) = (Namespace::new("client")?, Namespace::new("server")?);
        let mut topology = Self {
            paths: Vec::new(),
            bottlenecks: Vec::new(),
            cores: Vec::new(),
            client,
            server,
            spec: spec.clone(),
        };
        for namespace in [&topology.client, &topology.server] {
            prepare_host(namespace, spec.quick_timeouts)?;
        }
        topology.lay()?;
        topology.add_routes()?;
        topology.add_endpoints()?;
        topology.meet_neighbours()?;
        Ok(topology)
    }

    fn lay(&mut self) -> Result<()> {
        let offloads = self.spec.is_plain();
        for (index, quality) in self.spec.bottlenecks.iter().enumerate() {
            let core = Namespace::new("core")?;
            segment::prepare_router(&core)?;
            let number = plan::bottleneck_number(index);
            self.bottlenecks.push(Segment::lay(&core, &self.server, number, quality, offloads)?);
            self.cores.push(core);
        }
        for (index, path) in self.spec.paths.iter().enumerate() {
            let far = path.bottleneck.and_then(|index| self.cores.get(index)).unwrap_or(&self.server);
            let number = plan::path_number(index);
            self.paths.push(Segment::lay(&self.client, far, number, &path.quality, offloads)?);
        }
        Ok(())
    }

    /// Sends a datagram over each path and waits for the refusal: after that all link-layer addresses are known, so that no
    /// handshake waits for them.
    fn meet_neighbours(&self) -> Result<()> {
        const DISCARD_PORT: u16 = 9;
        let ends: Vec<_> = self.paths().map(|path| (path.client_address(), path.server_address())).collect();
        let meet = || {
            ends.iter().try_for_each(|&(client, server)| -> io::Result<()> {
                let socket = UdpSocket::bind((client, 0))?;
                socket.connect((server, DISCARD_PORT))?;
                socket.set_read_timeout(Some(Duration::from_secs(1)))?;
                socket.send(&[0])?;
                // The refusal is what is waited for; without one only the first handshake is slower.
                let _ = socket.recv(&mut [0]);
                Ok(())
            })
        };
        self.client.enter(meet)?.map_err(Error::os("reach the server from", self.client.name()))
    }

    fn add_endpoints(&self) -> Result<()> {
        let signal = self.spec.join == JoinBy::ServerSignal;
        endpoint::set_limits(
            &self.client,
            Limits { subflows: 8, add_addr_accepted: if signal { 8 } else { 0 } },
        )?;
        endpoint::set_limits(&self.server, Limits { subflows: 8, add_addr_accepted: 0 })?;
        // The first path needs no announcement, but on the client an endpoint to delete later, if the kernel has room for it.
        let without_first = signal || self.paths.len() > MOST_ENDPOINTS;
        for path in self.paths().skip(usize::from(without_first)) {
            let (namespace, interface, address, purpose) = match (signal, path.spec().backup) {
                (false, false) => {
                    (&self.client, path.client_interface(), path.client_address(), Purpose::Subflow)
                }
                (false, true) => {
                    (&self.client, path.client_interface(), path.client_address(), Purpose::BackupSubflow)
                }
                (true, false) => {
                    (&self.server, path.server_interface(), path.server_address(), Purpose::Signal)
                }
                (true, true) => {
                    (&self.server, path.server_interface(), path.server_address(), Purpose::BackupSignal)
                }
            };
            let id = path.endpoint_id();
            endpoint::add(namespace, Endpoint { id, address, purpose }, interface)?;
        }
        Ok(())
    }

    /// The client's namespace.
    #[must_use]
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The server's namespace.
    #[must_use]
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// All paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = Path<'_>> {
        self.paths
            .iter()
            .zip(&self.spec.paths)
            .enumerate()
            .map(|(index, (segment, spec))| Path::new(self, index, segment, spec))
    }

    /// Path `index`, from 0.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn path(&self, index: usize) -> Result<Path<'_>> {
        self.paths().nth(index).ok_or_else(|| Error::Invalid {
            what: format!("there is no path {index}"),
            advice: "paths count from 0",
        })
    }

    /// Traffic from the client's to the server's address on the first path, one MPTCP connection.
    ///
    /// # Errors
    /// Never in a topology that was built: it has a first path.
    pub fn traffic(&self, workload: Workload) -> Result<Spec> {
        let first = self.path(0)?;
        let mut spec = Spec::new(first.server_address(), workload);
        spec.client = Some(first.client_address());
        Ok(spec)
    }

    /// The queue of a shared bottleneck, or `None` when it has no rate limit that way or does not exist.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn bottleneck_queue(&self, index: usize, direction: Direction) -> Result<Option<QueueCounters>> {
        self.bottlenecks.get(index).map_or(Ok(None), |segment| segment.queue(direction))
    }

    /// Begins to watch the queue of a shared bottleneck, or `None` when it has no rate limit that way or does not exist.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn watch_bottleneck(&self, index: usize, direction: Direction) -> Result<Option<QueueWatch>> {
        self.bottlenecks.get(index).map_or(Ok(None), |segment| segment.watch_queue(direction))
    }
}

fn prepare_host(namespace: &Namespace, quick_timeouts: bool) -> Result<()> {
    segment::accept_any_source(namespace)?;
    namespace.sysctl("net.mptcp.enabled", "1")?;
    // Without it a cable that is pulled for a while comes back without its IPv6 addresses.
    namespace.sysctl("net.ipv6.conf.default.keep_addr_on_down", "1")?;
    // Churn: tens of thousands of connections a minute between two addresses.
    namespace.sysctl("net.ipv4.ip_local_port_range", "10000 65535")?;
    namespace.sysctl("net.ipv4.tcp_tw_reuse", "1")?;
    if quick_timeouts {
        namespace.sysctl("net.ipv4.tcp_retries2", "5")?;
        namespace.sysctl("net.ipv4.tcp_syn_retries", "2")?;
        namespace.sysctl("net.ipv4.tcp_orphan_retries", "2")?;
    }
    Ok(())
}
