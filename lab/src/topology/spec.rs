// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a network shall be: plain values to build a topology from, and the check that they make sense.
//! Nothing here touches the system.

use crate::error::{Error, Result};
use crate::impairer::Impairment;
use crate::link::Shape;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The address family of a path's MPTCP endpoints. Links always carry addresses of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// Who makes a connection use the further paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinBy {
    /// The client has a `subflow` endpoint on each path.
    #[default]
    ClientSubflow,
    /// The server announces its address on each further path (`signal` endpoints, `ADD_ADDR`).
    ServerSignal,
}

/// What one stretch of network does to packets. The default is a bare cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Rate limit from client to server, or `None` for no limit.
    pub forward: Option<Shape>,
    /// Rate limit from server to client, or `None` for no limit.
    pub backward: Option<Shape>,
    /// Delay, jitter and loss from client to server.
    pub forward_impairment: Impairment,
    /// Delay, jitter and loss from server to client.
    pub backward_impairment: Impairment,
}

impl Quality {
    /// The same rate in Mbit/s both ways, with the longest queueing delay.
    #[must_use]
    pub fn rate(mbit: f64, queue: Duration) -> Self {
        let shape = Some(Shape::mbit(mbit, queue));
        Self { forward: shape, backward: shape, ..Self::default() }
    }

    /// Adds base delay, half of `rtt` each way.
    #[must_use]
    pub fn rtt(mut self, rtt: Duration) -> Self {
        self.forward_impairment.delay = rtt / 2;
        self.backward_impairment.delay = rtt / 2;
        self
    }

    /// Adds jitter of up to this much in each direction; `seed` makes it repeatable where the relay does it.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration, seed: u64) -> Self {
        self.forward_impairment.jitter = jitter;
        self.backward_impairment.jitter = jitter;
        self.seeded(seed)
    }

    /// Loses packets from client to server with this probability; `seed` makes it repeatable where the relay does it.
    #[must_use]
    pub fn loss(mut self, probability: f64, seed: u64) -> Self {
        self.forward_impairment.loss = probability;
        self.seeded(seed)
    }

    fn seeded(mut self, seed: u64) -> Self {
        self.forward_impairment.seed = seed;
        self.backward_impairment.seed = seed.wrapping_add(1);
        self
    }

    pub(super) fn impaired(&self) -> bool {
        [self.forward_impairment, self.backward_impairment]
            .iter()
            .any(|rule| !rule.delay.is_zero() || !rule.jitter.is_zero() || rule.loss > 0.0)
    }

    pub(super) fn shaped(&self) -> bool {
        self.forward.is_some() || self.backward.is_some()
    }
}

/// One path of a topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSpec {
    /// What the path does to packets (with a bottleneck: the access link before it).
    pub quality: Quality,
    /// The family of its endpoints.
    pub family: Family,
    /// Whether its subflow is a backup.
    pub backup: bool,
    /// The bottleneck that it goes through, an index, or `None` for a way of its own to the server.
    pub bottleneck: Option<usize>,
}

/// A whole network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopologySpec {
    /// The paths, 1 to 9; connections start on the first.
    pub paths: Vec<PathSpec>,
    /// Stretches that several paths share.
    pub bottlenecks: Vec<Quality>,
    /// Who joins the further paths.
    pub join: JoinBy,
    /// Lowers TCP's retry limits in the two namespaces, so that a dead path is given up in seconds.
    pub quick_timeouts: bool,
}

/// Most paths: the first, and eight extra subflows, which is the kernel's limit.
const MOST_PATHS: usize = 9;

impl TopologySpec {
    /// Whether nothing in it limits or delays, so that offloads may stay on.
    pub(super) fn is_plain(&self) -> bool {
        self.paths
            .iter()
            .map(|path| &path.quality)
            .chain(&self.bottlenecks)
            .all(|quality| !quality.shaped() && !quality.impaired())
    }

    /// Refuses what makes no sense before anything is built.
    pub(super) fn check(&self) -> Result<()> {
        let invalid = |what: String, advice| Err(Error::Invalid { what, advice });
        if !(1..=MOST_PATHS).contains(&self.paths.len()) {
            return invalid(format!("a topology of {} paths", self.paths.len()), "the kernel allows 1 to 9");
        }
        let through = |path: &PathSpec| path.bottleneck.is_some_and(|index| index >= self.bottlenecks.len());
        if self.paths.iter().any(through) {
            return invalid(
                "a path goes through a bottleneck that is not in the list".to_owned(),
                "bottlenecks count from 0",
            );
        }
        let shared = self.paths.iter().any(|path| path.bottleneck.is_some());
        if shared && self.join == JoinBy::ServerSignal {
            return invalid(
                "behind a shared bottleneck the server has one address and can announce no other".to_owned(),
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
    fn a_network_that_cannot_be_is_refused_with_a_reason() {
        let refused = |spec: TopologySpec| spec.check().unwrap_err().to_string();
        assert!(refused(TopologySpec::default()).contains("0 paths"));
        let mut spec = TopologySpec {
            paths: vec![PathSpec { bottleneck: Some(0), ..PathSpec::default() }],
            ..TopologySpec::default()
        };
        assert!(refused(spec.clone()).contains("bottleneck"));
        spec.bottlenecks.push(Quality::default());
        assert!(spec.check().is_ok());
    }
}
