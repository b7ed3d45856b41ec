// SPDX-License-Identifier: MIT OR Apache-2.0
//! A segment connects a near and a far namespace with a veth pair, a router with rate limits, or an impairer with rate
//! limits. An impairer with netem is a router; a relay forwards frames unchanged. The queue of a rate limit is never in the
//! namespace of an end, because TCP small queues would keep it too short to act as a bottleneck.
//! Routes between segments are in `routing.rs`.

use super::plan::{self, Node, Side, Subnet};
use super::spec::{Family, LinkSpec};
use crate::error::Result;
use crate::impairer::{Direction, Impairer, ImpairerKind};
use crate::link::{self, QueueCounters, RateLimit, TcParent, VethEnd, VethSettings};
use crate::netns::Namespace;
use crate::router;
use std::net::IpAddr;

/// Equipment between the two ends.
#[derive(Debug)]
enum Middlebox {
    None,
    Router(Namespace),
    Impairer(Impairer),
}

impl Middlebox {
    fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::None => None,
            Self::Router(namespace) => Some(namespace),
            Self::Impairer(impairer) => Some(impairer.namespace()),
        }
    }

    /// The namespace of the middlebox. `None`: the middlebox is not a router.
    fn router(&self) -> Option<&Namespace> {
        match self {
            Self::Impairer(impairer) if impairer.kind() == ImpairerKind::Relay => None,
            _ => self.namespace(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u8,
    pub(super) near_interface: String,
    pub(super) far_interface: String,
    middlebox: Middlebox,
    link: LinkSpec,
}

/// The middlebox's interface towards the near end.
const NEAR_PORT: &str = "near";
/// The middlebox's interface towards the far end.
const FAR_PORT: &str = "far";

impl Segment {
    pub(super) fn build(
        near: &Namespace,
        far: &Namespace,
        number: u8,
        link: &LinkSpec,
        offloads: bool,
    ) -> Result<Self> {
        let mut segment = Self {
            number,
            near_interface: format!("to-server{number}"),
            far_interface: format!("to-client{number}"),
            middlebox: Middlebox::None,
            link: *link,
        };
        let veth = VethSettings { offloads, ..VethSettings::default() };
        if link.is_impaired() {
            segment.add_impairer(near, far, veth)?;
        } else if link.is_rate_limited() {
            let router = Namespace::new("router")?;
            router::prepare(&router)?;
            segment.connect_through(&router, near, far, (Subnet::Side, veth))?;
            segment.add_rate_limits(&router, TcParent::ROOT)?;
            segment.middlebox = Middlebox::Router(router);
        } else {
            let near_end = segment.end(near, Side::Near, Subnet::Segment);
            let far_end = segment.end(far, Side::Far, Subnet::Segment);
            link::create_veth_pair(&near_end, &far_end, veth)?;
        }
        Ok(segment)
    }

    /// Connects both ends to an impairer and starts the impairer.
    fn add_impairer(&mut self, near: &Namespace, far: &Namespace, veth: VethSettings) -> Result<()> {
        let kind = if self.link.corrupts() { ImpairerKind::Relay } else { ImpairerKind::detect()? };
        let (namespace, subnet) = match kind {
            ImpairerKind::Netem => {
                let router = Namespace::new("router")?;
                router::prepare(&router)?;
                (router, Subnet::Side)
            }
            ImpairerKind::Relay => {
                let relay = Namespace::new("relay")?;
                for scope in ["all", "default"] {
                    // The relay's namespace must not send its own packets.
                    relay.sysctl(&format!("net.ipv6.conf.{scope}.disable_ipv6"), "1")?;
                }
                (relay, Subnet::Segment)
            }
        };
        self.connect_through(&namespace, near, far, (subnet, veth))?;
        let impairments = [self.link.forward_impairment, self.link.backward_impairment];
        let impairer = Impairer::start(kind, namespace, (NEAR_PORT, FAR_PORT), impairments)?;
        self.add_rate_limits(impairer.namespace(), impairer.rate_limit_parent())?;
        self.middlebox = Middlebox::Impairer(impairer);
        Ok(())
    }

    /// Creates veth pairs from both ends to the middlebox.
    fn connect_through(
        &self,
        middlebox: &Namespace,
        near: &Namespace,
        far: &Namespace,
        (subnet, veth): (Subnet, VethSettings),
    ) -> Result<()> {
        let port = |interface, side| VethEnd {
            namespace: middlebox,
            interface,
            addresses: match subnet {
                Subnet::Side => plan::on_interface(self.number, side, Node::Router, subnet),
                Subnet::Segment => Vec::new(),
            },
        };
        link::create_veth_pair(&self.end(near, Side::Near, subnet), &port(NEAR_PORT, Side::Near), veth)?;
        link::create_veth_pair(&self.end(far, Side::Far, subnet), &port(FAR_PORT, Side::Far), veth)
    }

    /// Sets the rate limits of the middlebox's interfaces.
    fn add_rate_limits(&self, middlebox: &Namespace, parent: TcParent) -> Result<()> {
        for direction in Direction::BOTH {
            if let Some(limit) = self.rate_limit(direction) {
                limit.apply(middlebox, Self::port(direction), parent)?;
            }
        }
        Ok(())
    }

    fn rate_limit(&self, direction: Direction) -> Option<RateLimit> {
        match direction {
            Direction::Forward => self.link.forward,
            Direction::Backward => self.link.backward,
        }
    }

    fn end<'a>(&'a self, namespace: &'a Namespace, side: Side, subnet: Subnet) -> VethEnd<'a> {
        VethEnd {
            namespace,
            interface: self.interface(side),
            addresses: plan::on_interface(self.number, side, Node::End, subnet),
        }
    }

    pub(super) fn interface(&self, side: Side) -> &str {
        match side {
            Side::Near => &self.near_interface,
            Side::Far => &self.far_interface,
        }
    }

    /// The next hop from the end on side `from`: the router, or the opposite end if there is no router.
    pub(super) fn gateway(&self, from: Side, family: Family) -> IpAddr {
        let opposite = match from {
            Side::Near => Side::Far,
            Side::Far => Side::Near,
        };
        match self.middlebox.router() {
            Some(_) => plan::router(self.number, from, family),
            None => plan::end(self.number, opposite, family),
        }
    }

    pub(super) fn router(&self) -> Option<&Namespace> {
        self.middlebox.router()
    }

    pub(super) fn impairer(&self) -> Option<&Impairer> {
        match &self.middlebox {
            Middlebox::Impairer(impairer) => Some(impairer),
            Middlebox::None | Middlebox::Router(_) => None,
        }
    }

    /// The middlebox's outgoing interface for a direction.
    pub(super) fn port(direction: Direction) -> &'static str {
        match direction {
            Direction::Forward => FAR_PORT,
            Direction::Backward => NEAR_PORT,
        }
    }

    /// Namespace and interface of the queue of a rate limit. `None`: no rate limit in this direction.
    pub(super) fn queue_port(&self, direction: Direction) -> Option<(&Namespace, &'static str)> {
        self.rate_limit(direction)?;
        Some((self.middlebox.namespace()?, Self::port(direction)))
    }

    pub(super) fn queue(&self, direction: Direction) -> Result<Option<QueueCounters>> {
        let read = |(namespace, interface)| QueueCounters::read(namespace, interface);
        self.queue_port(direction).map(read).transpose()
    }
}
