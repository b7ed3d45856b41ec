// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stretch of network between a near and a far namespace: a bare cable, or a router with rate limits,
//! or an impairer with rate limits, which is a router itself or a relay that no end sees. The queue is never in
//! an end's own namespace, because TCP keeps its local queue short (TCP small queues) and no bottleneck would
//! build up. Routes between stretches: `routing.rs`.

use super::Family;
use super::Quality;
use super::plan::{self, Host, Side, Width};
use crate::error::Result;
use crate::impairer::{Direction, Enforcer, Impairer};
use crate::link::{self, Cable, End, Parent, QueueCounters, QueueWatch, Shape};
use crate::netns::Namespace;
use std::net::IpAddr;

/// What lies between the two ends.
#[derive(Debug)]
enum Middle {
    Nothing,
    Router(Namespace),
    Impairer(Impairer),
}

impl Middle {
    fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::Nothing => None,
            Self::Router(namespace) => Some(namespace),
            Self::Impairer(impairer) => Some(impairer.namespace()),
        }
    }

    /// Its namespace, if the ends see a router in it.
    fn router(&self) -> Option<&Namespace> {
        match self {
            Self::Impairer(impairer) if impairer.enforcer() == Enforcer::Relay => None,
            _ => self.namespace(),
        }
    }
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
            segment.impair(near, far, cable)?;
        } else if quality.shaped() {
            let middle = Namespace::new("router")?;
            prepare_router(&middle)?;
            segment.connect_by(&middle, near, far, (Width::Narrow, cable))?;
            segment.limit(&middle, Parent::ROOT)?;
            segment.middle = Middle::Router(middle);
        } else {
            let near_end = segment.end(near, Side::Near, Width::Wide);
            let far_end = segment.end(far, Side::Far, Width::Wide);
            link::connect(&near_end, &far_end, cable)?;
        }
        Ok(segment)
    }

    /// Cables to an impairer in the middle, and that at work.
    fn impair(&mut self, near: &Namespace, far: &Namespace, cable: Cable) -> Result<()> {
        let enforcer = Enforcer::here()?;
        let (middle, width) = match enforcer {
            Enforcer::Netem => {
                let middle = Namespace::new("router")?;
                prepare_router(&middle)?;
                (middle, Width::Narrow)
            }
            Enforcer::Relay => {
                let middle = Namespace::new("relay")?;
                for scope in ["all", "default"] {
                    // The wire must not speak itself.
                    middle.sysctl(&format!("net.ipv6.conf.{scope}.disable_ipv6"), "1")?;
                }
                (middle, Width::Wide)
            }
        };
        self.connect_by(&middle, near, far, (width, cable))?;
        let rules = [self.quality.forward_impairment, self.quality.backward_impairment];
        let impairer = Impairer::start(enforcer, middle, (NEAR_PORT, FAR_PORT), rules)?;
        self.limit(impairer.namespace(), impairer.limits_under())?;
        self.middle = Middle::Impairer(impairer);
        Ok(())
    }

    /// Cables from both ends to the middle.
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
        link::connect(&self.end(far, Side::Far, width), &port(FAR_PORT, Side::Far), cable)
    }

    /// Puts the rate limits on the middle's interfaces.
    fn limit(&self, middle: &Namespace, parent: Parent) -> Result<()> {
        for direction in Direction::BOTH {
            if let Some(shape) = self.shape(direction) {
                shape.apply(middle, Self::port(direction), parent)?;
            }
        }
        Ok(())
    }

    fn shape(&self, direction: Direction) -> Option<Shape> {
        match direction {
            Direction::Forward => self.quality.forward,
            Direction::Backward => self.quality.backward,
        }
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
        match self.middle.router() {
            Some(_) => plan::router(self.number, from, family),
            None => plan::end(self.number, opposite, family),
        }
    }

    pub(super) fn router(&self) -> Option<&Namespace> {
        self.middle.router()
    }

    pub(super) fn impairer(&self) -> Option<&Impairer> {
        match &self.middle {
            Middle::Impairer(impairer) => Some(impairer),
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

    pub(super) fn watch_queue(&self, direction: Direction) -> Result<Option<QueueWatch>> {
        match (self.shape(direction), self.middle.namespace()) {
            (Some(_), Some(middle)) => QueueWatch::open(middle, Self::port(direction)).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn queue(&self, direction: Direction) -> Result<Option<QueueCounters>> {
        match (self.shape(direction), self.middle.namespace()) {
            (Some(_), Some(middle)) => QueueCounters::read(middle, Self::port(direction)).map(Some),
            _ => Ok(None),
        }
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
