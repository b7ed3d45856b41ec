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
                    // The server's addresses are many: that of the first path may be behind another bottleneck.
                    let clients =
                        FAMILIES.iter().fold(default_towards(bottleneck, Side::Far), |routes, family| {
                            let network = plan::network(path.number, Side::Near, *family);
                            routes.to(network, towards(bottleneck, Side::Near, *family))
                        });
                    clients.apply(router)?;
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

/// What one path's subflows send goes out by another path's segment; acknowledgements still come back as before.
pub(super) fn detour(of: &Segment, over: &Segment) -> Routes {
    FAMILIES.iter().fold(Routes::default(), |routes, family| {
        let source = plan::end(of.number, Side::Near, *family);
        routes.from_source(source, u32::from(of.number), exit(over, Side::Near, *family))
    })
}

fn exit(segment: &Segment, from: Side, family: super::Family) -> Exit<'_> {
    Exit { interface: segment.interface(from), gateway: Some(segment.gateway(from, family)) }
}

/// To any address of the server: that of a first path behind another bottleneck as well.
fn core_to_server(bottleneck: &Segment) -> Routes {
    FAMILIES.iter().fold(Routes::default(), |routes, family| {
        routes.to(plan::anywhere(*family), exit(bottleneck, Side::Near, *family))
    })
}

/// To the client's network of `path`, back across `across`.
fn back_to_client(routes: Routes, path: &Segment, across: &Segment) -> Routes {
    FAMILIES.iter().fold(routes, |routes, family| {
        let network = plan::network(path.number, Side::Near, *family);
        routes.to(network, exit(across, Side::Far, *family))
    })
}

/// Out of a stretch's router to one of its ends.
fn towards(segment: &Segment, side: Side, family: super::Family) -> Exit<'static> {
    let direction = match side {
        Side::Near => crate::impairer::Direction::Backward,
        Side::Far => crate::impairer::Direction::Forward,
    };
    Exit { interface: Segment::port(direction), gateway: Some(plan::end(segment.number, side, family)) }
}

/// Within a stretch's router: what is not on its links goes to that end.
fn default_towards(segment: &Segment, side: Side) -> Routes {
    FAMILIES.iter().fold(Routes::default(), |routes, family| {
        routes.to(plan::anywhere(*family), towards(segment, side, *family))
    })
}
