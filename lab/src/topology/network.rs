// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a running network: plain data that paths and routes refer to. `mod.rs` builds it.

use super::segment::Segment;
use super::spec::{PathSpec, TopologySpec};
use crate::netns::Namespace;

// Fields drop in this order: relays stop before their namespaces are removed.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) paths: Vec<Segment>,
    pub(super) bottlenecks: Vec<Segment>,
    /// The router before each bottleneck, where its paths meet.
    pub(super) cores: Vec<Namespace>,
    pub(super) client: Namespace,
    pub(super) server: Namespace,
    pub(super) spec: TopologySpec,
}

impl Network {
    /// The shared bottleneck of a path, with the router before it.
    pub(super) fn bottleneck_of(&self, path: &PathSpec) -> Option<(&Segment, &Namespace)> {
        let index = path.bottleneck?;
        Some((self.bottlenecks.get(index)?, self.cores.get(index)?))
    }
}
