// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a running network, to which paths and routes refer. `mod.rs` builds them.

use super::segment::Segment;
use super::spec::{PathSpec, TopologySpec};
use crate::netns::Namespace;

// Fields are dropped in this order, so that relays stop before their namespaces are removed.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) paths: Vec<Segment>,
    pub(super) bottlenecks: Vec<Segment>,
    /// For each bottleneck, the router at which the paths meet before the bottleneck.
    pub(super) cores: Vec<Namespace>,
    pub(super) client: Namespace,
    pub(super) server: Namespace,
    pub(super) spec: TopologySpec,
}

impl Network {
    /// The shared bottleneck of a path, with the router before the bottleneck. `None`: the path has no shared bottleneck.
    pub(super) fn bottleneck_of(&self, path: &PathSpec) -> Option<(&Segment, &Namespace)> {
        let index = path.bottleneck?;
        Some((self.bottlenecks.get(index)?, self.cores.get(index)?))
    }
}
