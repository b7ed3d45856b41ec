// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of a topology, for both address families. The client selects the path by its source address, the server by the
//! client's address. Routers in between forward everything.

use super::network::Network;
use super::plan::{self, FAMILIES, Side};
use super::segment::Segment;
use super::spec::{Family, PathSpec};
use crate::error::Result;
use crate::impairer::Direction;
use crate::route::{NextHop, Routes};

/// Adds the routes in all namespaces.
pub(super) fn add_routes(network: &Network) -> Result<()> {
    let mut server = Routes::default();
    for (path, spec) in network.paths.iter().zip(&network.spec.paths) {
        client_routes(network, path, spec).apply(&network.client)?;
        if let Some((bottleneck, core)) = network.bottleneck_of(spec) {
            back_to_client(Routes::default(), path, path).apply(core)?;
            server = back_to_client(server, path, bottleneck);
            if let Some(router) = bottleneck.router() {
                bottleneck_routes(path, bottleneck).apply(router)?;
            }
            core_to_server(bottleneck).apply(core)?;
        } else {
            server = back_to_client(server, path, path);
        }
        if let Some(router) = path.router() {
            default_towards(path, Side::Far).apply(router)?;
        }
    }
    server.apply(&network.server)
}

/// Routes of the client for one path: by source address, and by destination for sockets without a bound address.
pub(super) fn client_routes(network: &Network, path: &Segment, spec: &PathSpec) -> Routes {
    let destination = network.bottleneck_of(spec).map_or(path, |(bottleneck, _)| bottleneck);
    let mut routes = Routes::default();
    for family in FAMILIES {
        let next_hop = next_hop(path, Side::Near, family);
        let source = plan::end(path.number, Side::Near, family);
        routes = routes
            .from_source(source, u32::from(path.number), next_hop)
            .to(plan::network(destination.number, Side::Far, family), next_hop);
    }
    routes
}

/// Sends the packets of one path's subflows over another path. Acknowledgements return on the old path.
pub(super) fn detour(path: &Segment, over: &Segment) -> Routes {
    FAMILIES.iter().fold(Routes::default(), |routes, family| {
        let source = plan::end(path.number, Side::Near, *family);
        routes.from_source(source, u32::from(path.number), next_hop(over, Side::Near, *family))
    })
}

fn next_hop(segment: &Segment, from: Side, family: Family) -> NextHop<'_> {
    NextHop { interface: segment.interface(from), gateway: Some(segment.gateway(from, family)) }
}

/// Routes of a bottleneck's router. The default route leads to the server, because the server has several addresses, and the server's
/// address on the first path may belong to another bottleneck.
fn bottleneck_routes(path: &Segment, bottleneck: &Segment) -> Routes {
    FAMILIES.iter().fold(default_towards(bottleneck, Side::Far), |routes, family| {
        let network = plan::network(path.number, Side::Near, *family);
        routes.to(network, towards(bottleneck, Side::Near, *family))
    })
}

/// Routes from the router before a bottleneck to all addresses of the server, including its addresses behind other bottlenecks.
fn core_to_server(bottleneck: &Segment) -> Routes {
    FAMILIES.iter().fold(Routes::default(), |routes, family| {
        routes.to(plan::any_address(*family), next_hop(bottleneck, Side::Near, *family))
    })
}

/// Adds, to `routes`, the routes from the far end of `segment` to the client's network on `path`.
fn back_to_client(routes: Routes, path: &Segment, segment: &Segment) -> Routes {
    FAMILIES.iter().fold(routes, |routes, family| {
        let network = plan::network(path.number, Side::Near, *family);
        routes.to(network, next_hop(segment, Side::Far, *family))
    })
}

/// The next hop from a segment's router to one of its ends.
fn towards(segment: &Segment, side: Side, family: Family) -> NextHop<'static> {
    let direction = match side {
        Side::Near => Direction::Backward,
        Side::Far => Direction::Forward,
    };
    NextHop { interface: Segment::port(direction), gateway: Some(plan::end(segment.number, side, family)) }
}

/// Default routes of a segment's router towards one side.
fn default_towards(segment: &Segment, side: Side) -> Routes {
    FAMILIES.iter().fold(Routes::default(), |routes, family| {
        routes.to(plan::any_address(*family), towards(segment, side, *family))
    })
}
