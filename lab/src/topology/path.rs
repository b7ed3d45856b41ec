// SPDX-License-Identifier: MIT OR Apache-2.0
//! One path of a running topology: its addresses, counters and impairer. Makes the path fail and restores it.

use super::network::Network;
use super::plan::{self, Side};
use super::routing;
use super::segment::Segment;
use super::spec::{JoinBy, PathSpec};
use crate::command;
use crate::endpoint;
use crate::error::{Error, Result};
use crate::impairer::{Direction, Impairer, Impairment};
use crate::link::{self, InterfaceCounters, QueueCounters};
use crate::netns::Namespace;
use std::net::IpAddr;

/// How a path fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFailure {
    /// The client's interface goes down. No packet informs the server of the failure.
    LinkDown,
    /// The client's subflow socket is destroyed, as with `ss --kill`. The server receives a RST.
    Reset,
    /// The server's subflow socket is destroyed. The client receives a RST.
    PeerReset,
    /// The client's `subflow` endpoint is deleted. The server receives `REMOVE_ADDR`.
    EndpointDeleted,
    /// The server's `signal` endpoint is deleted. The client receives `REMOVE_ADDR`.
    PeerRemovesAddress,
    /// All packets are lost in both directions. Needs a path with delay, jitter or loss.
    Blackhole,
}

/// One path of a running topology.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    network: &'a Network,
    index: usize,
    segment: &'a Segment,
    spec: &'a PathSpec,
}

impl<'a> Path<'a> {
    pub(super) fn new(network: &'a Network, index: usize) -> Option<Self> {
        let (segment, spec) = (network.paths.get(index)?, network.spec.paths.get(index)?);
        Some(Self { network, index, segment, spec })
    }

    /// The specification of the path.
    #[must_use]
    pub fn spec(&self) -> &'a PathSpec {
        self.spec
    }

    /// The client's address on this path, in the path's address family.
    #[must_use]
    pub fn client_address(&self) -> IpAddr {
        plan::end(self.segment.number, Side::Near, self.spec.family)
    }

    /// The server's address on this path. Paths through the same bottleneck have the same server address.
    #[must_use]
    pub fn server_address(&self) -> IpAddr {
        plan::end(self.server_segment().number, Side::Far, self.spec.family)
    }

    /// The client's interface.
    #[must_use]
    pub fn client_interface(&self) -> &'a str {
        &self.segment.near_interface
    }

    /// The server's interface.
    #[must_use]
    pub fn server_interface(&self) -> &'a str {
        &self.server_segment().far_interface
    }

    fn server_segment(&self) -> &'a Segment {
        self.network.bottleneck_of(self.spec).map_or(self.segment, |(bottleneck, _)| bottleneck)
    }

    /// The id of the path's MPTCP endpoint, on the client or (with [`JoinBy::ServerSignal`]) on the server.
    #[must_use]
    pub fn endpoint_id(&self) -> u8 {
        plan::path_number(self.index)
    }

    /// The impairer of the path. `None`: the path has no delay, jitter or loss.
    #[must_use]
    pub fn impairer(&self) -> Option<&'a Impairer> {
        self.segment.impairer()
    }

    /// Counters of the client's interface.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn client_counters(&self) -> Result<InterfaceCounters> {
        InterfaceCounters::read(&self.network.client, self.client_interface())
    }

    /// The queue of the path's own rate limit. `None`: no rate limit in this direction.
    ///
    /// # Errors
    /// If the counters of the queue cannot be read.
    pub fn queue(&self, direction: Direction) -> Result<Option<QueueCounters>> {
        self.segment.queue(direction)
    }

    /// Namespace and interface of the queue of the path's own rate limit. `None`: no rate limit in this direction.
    #[must_use]
    pub fn queue_port(&self, direction: Direction) -> Option<(&'a Namespace, &'static str)> {
        self.segment.queue_port(direction)
    }

    /// Sends the packets of this path's subflows over the path `other`, as after a route change. Both paths then share a bottleneck.
    /// Works only for the initial subflow of a connection, because the sockets of later subflows are bound to their interface.
    ///
    /// # Errors
    /// If the kernel rejects the route.
    pub fn reroute_over(&self, other: &Path<'_>) -> Result<()> {
        routing::detour(self.segment, other.segment).apply_without_rules(&self.network.client)
    }

    /// Changes the backup flag of the path's subflows in open connections (`MP_PRIO`).
    ///
    /// # Errors
    /// If the endpoint was deleted.
    pub fn set_backup(&self, backup: bool) -> Result<()> {
        endpoint::set_backup(self.endpoint_namespace(), self.endpoint_id(), backup)
    }

    fn endpoint_namespace(&self) -> &'a Namespace {
        match self.network.spec.join {
            JoinBy::ClientSubflow => &self.network.client,
            JoinBy::ServerSignal => &self.network.server,
        }
    }

    /// Makes the path fail.
    ///
    /// # Errors
    /// If the topology does not allow this failure, there is no subflow to reset, or the kernel returns an error.
    pub fn fail(&self, failure: PathFailure) -> Result<()> {
        let client = &self.network.client;
        match (failure, self.network.spec.join) {
            (PathFailure::LinkDown, _) => link::down(client, self.client_interface()),
            (PathFailure::Reset, _) => {
                let address = self.client_address();
                reset(client, &format!("src {address}"))
            }
            (PathFailure::PeerReset, _) => {
                let address = self.client_address();
                reset(&self.network.server, &format!("dst {address}"))
            }
            (PathFailure::Blackhole, _) => self.set_loss(1.0),
            (PathFailure::EndpointDeleted, JoinBy::ClientSubflow)
            | (PathFailure::PeerRemovesAddress, JoinBy::ServerSignal) => {
                endpoint::delete(self.endpoint_namespace(), self.endpoint_id())
            }
            (PathFailure::EndpointDeleted, JoinBy::ServerSignal) => Err(Error::Invalid {
                what: "the client has no endpoint on this path".to_owned(),
                advice: "build the topology with JoinBy::ClientSubflow",
            }),
            (PathFailure::PeerRemovesAddress, JoinBy::ClientSubflow) => Err(Error::Invalid {
                what: "the server announced no address on this path".to_owned(),
                advice: "build the topology with JoinBy::ServerSignal",
            }),
        }
    }

    /// Ends [`PathFailure::LinkDown`] and [`PathFailure::Blackhole`]. The loss probability becomes 0.
    ///
    /// # Errors
    /// If the impairment, the interface or the routes cannot be restored.
    pub fn restore(&self) -> Result<()> {
        if self.impairer().is_some() {
            self.set_loss(0.0)?;
        }
        let client = &self.network.client;
        link::up(client, self.client_interface())?;
        routing::client_routes(self.network, self.segment, self.spec).apply_without_rules(client)
    }

    fn set_loss(&self, loss: f64) -> Result<()> {
        let impairer = self.impairer().ok_or(Error::Invalid {
            what: "this path cannot lose packets".to_owned(),
            advice: "give the path a delay",
        })?;
        for direction in Direction::BOTH {
            let impairment = impairer.impairment(direction);
            impairer.set(direction, Impairment { loss, ..impairment })?;
        }
        Ok(())
    }
}

/// Aborts the TCP sockets at one end that a filter of `ss` selects.
fn reset(end: &Namespace, filter: &str) -> Result<()> {
    if end.enter(|| command::abort_sockets(filter))?? == 0 {
        return Err(Error::Invalid {
            what: format!("no TCP socket to reset ({filter})"),
            advice: "wait until the subflow exists",
        });
    }
    Ok(())
}
