// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network of a run: paths between two hosts, or a fabric. Finds client and server of each load in either network.

use std::path::Path;

use mpwatch_lab::topology::PathFailure;
use mpwatch_lab::traffic::TrafficSpec;
use mpwatch_lab::{Namespace, Topology};

use crate::experiment::{Load, Network, Scenario};
use crate::fabric::{self, Fabric, Forwarding};
use crate::programs::{self, Skip};

/// Without this sysctl, all switches use the same hash function, so that some paths are never used.
const HASH_SEED: &str = "/proc/sys/net/ipv4/fib_multipath_hash_seed";

/// A running network.
pub(super) enum RunningNetwork {
    Paths(Topology),
    Fabric(Fabric),
}

impl RunningNetwork {
    pub(super) fn build(network: &Network, seed: u64) -> anyhow::Result<Self> {
        match network {
            Network::Paths(spec) => Ok(Self::Paths(Topology::build(spec)?)),
            Network::Fabric(spec) => {
                if !Path::new(HASH_SEED).exists() {
                    let what = "this kernel cannot set the ECMP hash seed per namespace (needs Linux 6.11)";
                    return Err(Skip(what.to_owned()).into());
                }
                if spec.forwarding == Forwarding::PerPacket {
                    programs::require(&[programs::NFT])?;
                }
                Ok(Self::Fabric(Fabric::build(spec, seed)?))
            }
        }
    }

    /// Client and server of a load.
    pub(super) fn ends(&self, load: &Load) -> anyhow::Result<[&Namespace; 2]> {
        let [client, server] = load.hosts;
        match self {
            Self::Paths(topology) => Ok([topology.client(), topology.server()]),
            Self::Fabric(fabric) => Ok([fabric.host(client)?, fabric.host(server)?]),
        }
    }

    /// The traffic of a load, between the addresses of its ends in this network.
    pub(super) fn traffic(&self, load: &Load) -> anyhow::Result<TrafficSpec> {
        match self {
            Self::Paths(topology) => Ok(topology.traffic(load.workload)?),
            Self::Fabric(_) => {
                let [client, server] = load.hosts.map(|host| fabric::address(host, 0));
                let mut spec = TrafficSpec::new(server, load.workload);
                spec.client = Some(client);
                Ok(spec)
            }
        }
    }

    /// Names of the namespaces in which connections end.
    pub(super) fn hosts(&self) -> Vec<String> {
        match self {
            Self::Paths(topology) => {
                [topology.client(), topology.server()].map(|host| host.name().to_owned()).into()
            }
            Self::Fabric(fabric) => fabric.host_names().map(str::to_owned).collect(),
        }
    }

    pub(super) fn fail(&self, path: usize) -> anyhow::Result<()> {
        match self {
            Self::Paths(topology) => Ok(topology.path(path)?.fail(PathFailure::LinkDown)?),
            Self::Fabric(_) => anyhow::bail!("a fabric has no path that can fail"),
        }
    }

    /// Bytes that each core switch has received so far. Empty in a network without core switches.
    pub(super) fn core_bytes(&self) -> anyhow::Result<Vec<u64>> {
        match self {
            Self::Paths(_) => Ok(Vec::new()),
            Self::Fabric(fabric) => Ok(fabric.core_bytes()?),
        }
    }

    /// The client's address and the queue of each path. Empty for a fabric.
    pub(super) fn queues(&self, scenario: &Scenario) -> Vec<(std::net::IpAddr, usize)> {
        let (Self::Paths(topology), Network::Paths(spec)) = (self, &scenario.network) else {
            return Vec::new();
        };
        // A path without a shared bottleneck has its own queue.
        let queue = |(nth, path): (usize, &mpwatch_lab::topology::PathSpec)| {
            path.bottleneck.unwrap_or(usize::MAX - nth)
        };
        let queues = spec.paths.iter().enumerate().map(queue);
        topology.paths().map(|path| path.client_address()).zip(queues).collect()
    }
}
