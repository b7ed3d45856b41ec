// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stretch of network between a near and a far namespace: a bare cable, or a router with rate limits,
//! or a delaying relay with rate limits. The queue is never in an end's own namespace, because TCP keeps its
//! local queue short (TCP small queues) and no bottleneck would build up. Routes between stretches: `routing.rs`.

use super::Family;
use super::Quality;
use super::plan::{self, Host, Side, Width};
use crate::error::Result;
use crate::link::{self, Cable, End, QueueCounters};
use crate::netns::Namespace;
use crate::relay::{Direction, Relay};
use std::net::IpAddr;

/// What lies between the two ends.
#[derive(Debug)]
enum Middle {
    Nothing,
    Router(Namespace),
    // The relay comes first: it must stop before its namespace goes.
    Relay(Relay, Namespace),
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u8,
    pub(super) near_interface: String,
    pub(super) far_interface: String,
    middle: Middle,
    quality: Quality,
}

/// The middle's interface towards the near end.
const NEAR_PORT: &str = "near";
/// The middle's interface towards the far end.
const FAR_PORT: &str = "far";

impl Segment {
    pub(super) fn lay(
        near: &Namespace,
        far: &Namespace,
        number: u8,
        quality: &Quality,
        offloads: bool,
    ) -> Result<Self> {
        let mut segment = Self {
            number,
            near_interface: format!("to-server{number}"),
            far_interface: format!("to-client{number}"),
            middle: Middle::Nothing,
            quality: *quality,
        };
        let cable = Cable { offloads, ..Cable::default() };
        if quality.impaired() {
            let middle = Namespace::new("relay")?;
            for scope in ["all", "default"] {
                // The wire must not speak itself.
                middle.sysctl(&format!("net.ipv6.conf.{scope}.disable_ipv6"), "1")?;
            }
            segment.connect_by(&middle, near, far, (Width::Wide, cable))?;
            let relay = Relay::start(
                &middle,
                (NEAR_PORT, FAR_PORT),
                quality.forward_impairment,
                quality.backward_impairment,
            )?;
            segment.middle = Middle::Relay(relay, middle);
        } else if quality.shaped() {
            let middle = Namespace::new("router")?;
            prepare_router(&middle)?;
            segment.connect_by(&middle, near, far, (Width::Narrow, cable))?;
            segment.middle = Middle::Router(middle);
        } else {
            let near_end = segment.end(near, Side::Near, Width::Wide);
            let far_end = segment.end(far, Side::Far, Width::Wide);
            link::connect(&near_end, &far_end, cable)?;
        }
        Ok(segment)
    }

    /// Cables from both ends to the middle, and the rate limits on the middle's interfaces.
    fn connect_by(
        &self,
        middle: &Namespace,
        near: &Namespace,
        far: &Namespace,
        (width, cable): (Width, Cable),
    ) -> Result<()> {
        let port = |interface, side| End {
            namespace: middle,
            interface,
            addresses: match width {
                Width::Narrow => plan::on_interface(self.number, side, Host::Router, width),
                Width::Wide => Vec::new(),
            },
        };
        link::connect(&self.end(near, Side::Near, width), &port(NEAR_PORT, Side::Near), cable)?;
        link::connect(&self.end(far, Side::Far, width), &port(FAR_PORT, Side::Far), cable)?;
        if let Some(shape) = self.quality.forward {
            shape.apply(middle, FAR_PORT)?;
        }
        if let Some(shape) = self.quality.backward {
            shape.apply(middle, NEAR_PORT)?;
        }
        Ok(())
    }

    fn end<'a>(&'a self, namespace: &'a Namespace, side: Side, width: Width) -> End<'a> {
        End {
            namespace,
            interface: self.interface(side),
            addresses: plan::on_interface(self.number, side, Host::End, width),
        }
    }

    pub(super) fn interface(&self, side: Side) -> &str {
        match side {
            Side::Near => &self.near_interface,
            Side::Far => &self.far_interface,
        }
    }

    /// The next hop of an end that sends across: the router, or the opposite end.
    pub(super) fn gateway(&self, from: Side, family: Family) -> IpAddr {
        let opposite = match from {
            Side::Near => Side::Far,
            Side::Far => Side::Near,
        };
        match self.middle {
            Middle::Router(_) => plan::router(self.number, from, family),
            Middle::Nothing | Middle::Relay(..) => plan::end(self.number, opposite, family),
        }
    }

    pub(super) fn router(&self) -> Option<&Namespace> {
        match &self.middle {
            Middle::Router(namespace) => Some(namespace),
            Middle::Nothing | Middle::Relay(..) => None,
        }
    }

    pub(super) fn relay(&self) -> Option<&Relay> {
        match &self.middle {
            Middle::Relay(relay, _) => Some(relay),
            Middle::Nothing | Middle::Router(_) => None,
        }
    }

    /// The middle's interface that sends in a direction.
    pub(super) fn port(direction: Direction) -> &'static str {
        match direction {
            Direction::Forward => FAR_PORT,
            Direction::Backward => NEAR_PORT,
        }
    }

    pub(super) fn queue(&self, direction: Direction) -> Result<Option<QueueCounters>> {
        let limit = match direction {
            Direction::Forward => self.quality.forward,
            Direction::Backward => self.quality.backward,
        };
        let (Middle::Router(middle) | Middle::Relay(_, middle)) = &self.middle else {
            return Ok(None);
        };
        limit.map(|_| QueueCounters::read(middle, Self::port(direction))).transpose()
    }
}

/// Makes a namespace forward packets of both families.
pub(super) fn prepare_router(namespace: &Namespace) -> Result<()> {
    accept_any_source(namespace)?;
    namespace.sysctl("net.ipv4.ip_forward", "1")?;
    namespace.sysctl("net.ipv6.conf.all.forwarding", "1")
}

/// Turns the reverse-path check off, which would drop packets of a path whose way back is another.
pub(super) fn accept_any_source(namespace: &Namespace) -> Result<()> {
    namespace.sysctl("net.ipv4.conf.all.rp_filter", "0")?;
    namespace.sysctl("net.ipv4.conf.default.rp_filter", "0")
}
