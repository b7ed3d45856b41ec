// SPDX-License-Identifier: MIT OR Apache-2.0
//! One path of a running topology: its addresses, counters, impairer, and the ways it can die and come back.

use super::plan::{self, Side};
use super::segment::Segment;
use super::{JoinBy, PathSpec, Topology};
use crate::endpoint;
use crate::error::{Error, Result};
use crate::impairer::{Direction, Impairer, Impairment};
use crate::link::{self, InterfaceCounters, QueueCounters, QueueWatch};
use crate::reset;
use std::net::IpAddr;

/// How a path dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The client's interface goes down; no packet tells the peer.
    LinkDown,
    /// The client's socket of the subflow is aborted, and the server receives a RST.
    Reset,
    /// The client's `subflow` endpoint is deleted; the server is told with `REMOVE_ADDR`.
    EndpointDeleted,
    /// The server's `signal` endpoint is deleted; the client receives `REMOVE_ADDR`.
    PeerRemovesAddress,
    /// Packets vanish both ways without a sign; needs a path with delay, jitter or loss.
    Blackhole,
}

/// One path of a running [`Topology`].
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    topology: &'a Topology,
    index: usize,
    segment: &'a Segment,
    spec: &'a PathSpec,
}

impl<'a> Path<'a> {
    pub(super) fn new(
        topology: &'a Topology,
        index: usize,
        segment: &'a Segment,
        spec: &'a PathSpec,
    ) -> Self {
        Self { topology, index, segment, spec }
    }

    /// What it was built from.
    #[must_use]
    pub fn spec(&self) -> &'a PathSpec {
        self.spec
    }

    /// The client's address on this path, of the path's family.
    #[must_use]
    pub fn client_address(&self) -> IpAddr {
        plan::end(self.segment.number, Side::Near, self.spec.family)
    }

    /// The server's address on this path; behind a bottleneck all paths share one.
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
        self.spec.bottleneck.and_then(|index| self.topology.bottlenecks.get(index)).unwrap_or(self.segment)
    }

    /// The id of the path's MPTCP endpoint, on the client or (with [`JoinBy::ServerSignal`]) on the server.
    #[must_use]
    pub fn endpoint_id(&self) -> u8 {
        plan::path_number(self.index)
    }

    /// What delays this path, or `None` when it has no delay, jitter or loss.
    #[must_use]
    pub fn impairer(&self) -> Option<&'a Impairer> {
        self.segment.impairer()
    }

    /// Counters of the client's interface.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn client_counters(&self) -> Result<InterfaceCounters> {
        InterfaceCounters::read(&self.topology.client, self.client_interface())
    }

    /// The queue of the path's own rate limit, or `None` when it has none that way.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn queue(&self, direction: Direction) -> Result<Option<QueueCounters>> {
        self.segment.queue(direction)
    }

    /// Begins to watch the queue of the path's own rate limit, or `None` when it has none that way.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn watch_queue(&self, direction: Direction) -> Result<Option<QueueWatch>> {
        self.segment.watch_queue(direction)
    }

    /// From now on what this path's subflows send takes another path's way, as after a change of routes: the two share its bottleneck.
    /// Only of sockets that are not bound to an interface: those of the first subflow of a connection.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn send_over(&self, other: &Path<'_>) -> Result<()> {
        super::routing::detour(self.segment, other.segment).apply_without_rules(&self.topology.client)
    }

    /// Makes the path's subflows backups or regular ones while connections run (`MP_PRIO`).
    ///
    /// # Errors
    /// When the endpoint is gone.
    pub fn set_backup(&self, backup: bool) -> Result<()> {
        endpoint::set_backup(self.endpoint_home(), self.endpoint_id(), backup)
    }

    fn endpoint_home(&self) -> &'a crate::Namespace {
        match self.topology.spec.join {
            JoinBy::ClientSubflow => &self.topology.client,
            JoinBy::ServerSignal => &self.topology.server,
        }
    }

    /// Kills the path.
    ///
    /// # Errors
    /// When this way to die does not fit the topology, there is nothing to kill, or the kernel refuses.
    pub fn kill(&self, how: How) -> Result<()> {
        let client = &self.topology.client;
        match (how, self.topology.spec.join) {
            (How::LinkDown, _) => link::down(client, self.client_interface()),
            (How::Reset, _) => self.reset(),
            (How::Blackhole, _) => self.set_loss(1.0),
            (How::EndpointDeleted, JoinBy::ClientSubflow)
            | (How::PeerRemovesAddress, JoinBy::ServerSignal) => {
                endpoint::delete(self.endpoint_home(), self.endpoint_id())
            }
            (How::EndpointDeleted, JoinBy::ServerSignal) => Err(Error::Invalid {
                what: "the client has no endpoint here".to_owned(),
                advice: "build the topology with JoinBy::ClientSubflow",
            }),
            (How::PeerRemovesAddress, JoinBy::ClientSubflow) => Err(Error::Invalid {
                what: "the server announced no address here".to_owned(),
                advice: "build the topology with JoinBy::ServerSignal",
            }),
        }
    }

    fn reset(&self) -> Result<()> {
        let address = self.client_address();
        let aborted = self.topology.client.enter(|| reset::abort_sockets(|local| local == address))??;
        if aborted == 0 {
            return Err(Error::Invalid {
                what: format!("no TCP socket of {address} to reset"),
                advice: "wait until the subflow exists",
            });
        }
        Ok(())
    }

    /// Undoes [`How::LinkDown`] and [`How::Blackhole`] (losses become 0).
    ///
    /// # Errors
    /// When the losses, the interface or the routes cannot be restored.
    pub fn revive(&self) -> Result<()> {
        if self.impairer().is_some() {
            self.set_loss(0.0)?;
        }
        let client = &self.topology.client;
        link::up(client, self.client_interface())?;
        self.topology.client_routes(self.segment, self.spec).apply_without_rules(client)
    }

    fn set_loss(&self, loss: f64) -> Result<()> {
        let impairer = self.impairer().ok_or(Error::Invalid {
            what: "nothing on this path could lose packets".to_owned(),
            advice: "give the path a delay",
        })?;
        for direction in Direction::BOTH {
            let rule = impairer.impairment(direction);
            impairer.set(direction, Impairment { loss, ..rule })?;
        }
        Ok(())
    }
}
