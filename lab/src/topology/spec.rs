// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes a network. A specification can be checked before the network is built.

use crate::error::{Error, Result};
use crate::impairer::Impairment;
use crate::link::RateLimit;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The address family of a path's MPTCP endpoints. Interfaces always have addresses of both families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// Which end makes connections use the paths beyond the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinBy {
    /// The client has a `subflow` endpoint on each path.
    #[default]
    ClientSubflow,
    /// The server announces its address on each path except the first (`signal` endpoints, `ADD_ADDR`).
    ServerSignal,
}

/// Rate limits and impairments of a link. By default, a link has no rate limit and no impairment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Rate limit from client to server. `None`: no limit.
    pub forward: Option<RateLimit>,
    /// Rate limit from server to client. `None`: no limit.
    pub backward: Option<RateLimit>,
    /// Delay, jitter and loss from client to server.
    pub forward_impairment: Impairment,
    /// Delay, jitter and loss from server to client.
    pub backward_impairment: Impairment,
}

impl LinkSpec {
    /// A link with the same rate in Mbit/s and the same maximum queueing delay in both directions.
    #[must_use]
    pub fn rate(mbit: f64, queue: Duration) -> Self {
        let limit = Some(RateLimit::mbit(mbit, queue));
        Self { forward: limit, backward: limit, ..Self::default() }
    }

    /// Sets the base delay: half of `rtt` in each direction.
    #[must_use]
    pub fn rtt(mut self, rtt: Duration) -> Self {
        self.forward_impairment.delay = rtt / 2;
        self.backward_impairment.delay = rtt / 2;
        self
    }

    /// Sets the maximum jitter of each direction. With the relay, jitter is reproducible: it depends only on `seed`.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration, seed: u64) -> Self {
        self.forward_impairment.jitter = jitter;
        self.backward_impairment.jitter = jitter;
        self.with_seed(seed)
    }

    /// Sets the loss probability from client to server. With the relay, losses are reproducible: they depend only on `seed`.
    #[must_use]
    pub fn loss(mut self, probability: f64, seed: u64) -> Self {
        self.forward_impairment.loss = probability;
        self.with_seed(seed)
    }

    /// Changes the payload of the TCP segment with this number, from client to server (see [`Impairment::corrupt_nth`]).
    #[must_use]
    pub fn corrupt_nth(mut self, segment: u32) -> Self {
        self.forward_impairment.corrupt_nth = segment;
        self
    }

    fn with_seed(mut self, seed: u64) -> Self {
        self.forward_impairment.seed = seed;
        self.backward_impairment.seed = seed.wrapping_add(1);
        self
    }

    pub(super) fn is_impaired(&self) -> bool {
        [self.forward_impairment, self.backward_impairment].iter().any(|impairment| {
            !impairment.delay.is_zero() || !impairment.jitter.is_zero() || impairment.loss > 0.0
        }) || self.corrupts()
    }

    /// Whether the link changes payload.
    pub(super) fn corrupts(&self) -> bool {
        [self.forward_impairment, self.backward_impairment]
            .iter()
            .any(|impairment| impairment.corrupt_nth > 0)
    }

    pub(super) fn is_rate_limited(&self) -> bool {
        self.forward.is_some() || self.backward.is_some()
    }
}

/// One path of a topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSpec {
    /// The link of the path. With a shared bottleneck: the access link before the bottleneck.
    pub link: LinkSpec,
    /// The address family of the path's endpoints.
    pub family: Family,
    /// Whether the subflow over this path is a backup.
    pub backup: bool,
    /// Index of the shared bottleneck that the path crosses. `None`: the path crosses no shared bottleneck.
    pub bottleneck: Option<usize>,
}

/// A whole network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopologySpec {
    /// The paths, 1 to 9. The initial subflow of a connection uses the first path.
    pub paths: Vec<PathSpec>,
    /// Links that several paths can share.
    pub bottlenecks: Vec<LinkSpec>,
    /// Which end makes connections use the paths beyond the first.
    pub join: JoinBy,
    /// Whether TCP's retry limits are lowered in both namespaces, so that the kernel gives up a failed path within seconds.
    pub quick_timeouts: bool,
}

/// Maximum number of paths: one for the initial subflow, plus the kernel's limit of eight more.
const MAX_PATHS: usize = 9;

impl TopologySpec {
    /// Whether no link has a rate limit or an impairment. Offloads may then stay on.
    pub(super) fn is_plain(&self) -> bool {
        self.paths
            .iter()
            .map(|path| &path.link)
            .chain(&self.bottlenecks)
            .all(|link| !link.is_rate_limited() && !link.is_impaired())
    }

    /// Checks the specification before the network is built.
    ///
    /// # Errors
    /// If the number of paths is invalid, or parts of the specification contradict each other.
    pub fn check(&self) -> Result<()> {
        let invalid = |what: String, advice| Err(Error::Invalid { what, advice });
        if !(1..=MAX_PATHS).contains(&self.paths.len()) {
            return invalid(format!("a topology of {} paths", self.paths.len()), "the kernel allows 1 to 9");
        }
        let has_unknown_bottleneck =
            |path: &PathSpec| path.bottleneck.is_some_and(|index| index >= self.bottlenecks.len());
        if self.paths.iter().any(has_unknown_bottleneck) {
            return invalid(
                "a path refers to a bottleneck that is not in the list".to_owned(),
                "bottlenecks count from 0",
            );
        }
        let shared = self.paths.iter().any(|path| path.bottleneck.is_some());
        if shared && self.join == JoinBy::ServerSignal {
            return invalid(
                "behind a shared bottleneck the server has only one address to announce".to_owned(),
                "use JoinBy::ClientSubflow",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_network_is_refused_with_a_reason() {
        let refused = |spec: TopologySpec| spec.check().unwrap_err().to_string();
        assert!(refused(TopologySpec::default()).contains("0 paths"));
        let mut spec = TopologySpec {
            paths: vec![PathSpec { bottleneck: Some(0), ..PathSpec::default() }],
            ..TopologySpec::default()
        };
        assert!(refused(spec.clone()).contains("bottleneck"));
        spec.bottlenecks.push(LinkSpec::default());
        assert!(spec.check().is_ok());
    }
}
