// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of a topology. The client chooses the path by its source address, the server by the client's address;
//! routers between pass everything on. Both families, always.

use super::plan::{self, FAMILIES, Side};
use super::segment::Segment;
use super::{PathSpec, Topology};
use crate::error::Result;
use crate::route::{Exit, Routes};

impl Topology {
    pub(super) fn add_routes(&self) -> Result<()> {
        let mut server = Routes::default();
        for (path, spec) in self.paths.iter().zip(&self.spec.paths) {
            self.client_routes(path, spec).apply(&self.client)?;
            let last = spec
                .bottleneck
                .and_then(|index| Some((self.bottlenecks.get(index)?, self.cores.get(index)?)));
            if let Some((bottleneck, core)) = last {
                back_to_client(Routes::default(), path, path).apply(core)?;
                server = back_to_client(server, path, bottleneck);
                if let Some(router) = bottleneck.router() {
                    default_towards(bottleneck, Side::Near).apply(router)?;
                }
                core_to_server(bottleneck).apply(core)?;
            } else {
                server = back_to_client(server, path, path);
            }
            if let Some(router) = path.router() {
                default_towards(path, Side::Far).apply(router)?;
            }
        }
        server.apply(&self.server)
    }

    /// Out of the client: by source address, and for sockets without one by destination.
    pub(super) fn client_routes(&self, path: &Segment, spec: &PathSpec) -> Routes {
        let destination = spec.bottleneck.and_then(|index| self.bottlenecks.get(index)).unwrap_or(path);
        let mut routes = Routes::default();
        for family in FAMILIES {
            let exit = exit(path, Side::Near, family);
            let source = plan::end(path.number, Side::Near, family);
            routes = routes
                .from_source(source, u32::from(path.number), exit)
                .to(plan::network(destination.number, Side::Far, family), exit);
        }
        routes
    }
}

fn exit(segment: &Segment, from: Side, family: super::Family) -> Exit<'_> {
    Exit { interface: segment.interface(from), gateway: Some(segment.gateway(from, family)) }
}

fn core_to_server(bottleneck: &Segment) -> Routes {
    FAMILIES.iter().fold(Routes::default(), |routes, family| {
        let network = plan::network(bottleneck.number, Side::Far, *family);
        routes.to(network, exit(bottleneck, Side::Near, *family))
    })
}

/// To the client's network of `path`, back across `across`.
fn back_to_client(routes: Routes, path: &Segment, across: &Segment) -> Routes {
    FAMILIES.iter().fold(routes, |routes, family| {
        let network = plan::network(path.number, Side::Near, *family);
        routes.to(network, exit(across, Side::Far, *family))
    })
}

/// Within a stretch's router: what is not on its links goes to that end.
fn default_towards(segment: &Segment, side: Side) -> Routes {
    let direction = match side {
        Side::Near => crate::impairer::Direction::Backward,
        Side::Far => crate::impairer::Direction::Forward,
    };
    FAMILIES.iter().fold(Routes::default(), |routes, family| {
        let exit = Exit {
            interface: Segment::port(direction),
            gateway: Some(plan::end(segment.number, side, *family)),
        };
        routes.to(plan::anywhere(*family), exit)
    })
}
