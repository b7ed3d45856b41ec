// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of elimination.

use mpwatch_model::flow::elimination::EliminationAction;
use mpwatch_model::unit::Nanos;

/// When an extra subflow is removed, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// What happens to it.
    pub action: EliminationAction,
    /// How long the verdict must have been `shared` without interruption.
    pub stable: Nanos,
    /// The lowest probability that counts. A method that computes none is believed.
    pub probability: f64,
    /// Maximum number of removals within any 60 s, over all connections.
    pub max_per_minute: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            action: EliminationAction::default(),
            stable: Nanos(2_500_000_000),
            probability: 0.99,
            max_per_minute: 10,
        }
    }
}
