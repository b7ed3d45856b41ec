// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sample steps of the elimination of extra subflows.

use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{Candidate, EliminationAction, Removal, Throughput};
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::unit::{BitsPerSecond, Micros};

/// Removes the last subflow of a connection and keeps the first one. `None`: the connection has no subflows.
pub fn removal(connection: &Connection) -> Option<Removal> {
    let candidate = |subflow: &Subflow, goodput| Candidate {
        subflow: subflow.id,
        local: subflow.local,
        remote: subflow.remote,
        goodput: BitsPerSecond(goodput),
        srtt: Some(Micros(67_100)),
    };
    Some(Removal {
        action: EliminationAction::Close,
        method: DetectionMethod::Concordance,
        group: connection.subflows.iter().map(|subflow| subflow.id).collect(),
        removed: candidate(connection.subflows.last()?, 8_990_000),
        kept: candidate(connection.subflows.first()?, 17_480_000),
        probability: Some(0.998),
        stable: Micros(3_500_000),
        evidence: None,
    })
}

/// A throughput that dropped.
pub fn dropped() -> Throughput {
    Throughput { before: BitsPerSecond(37_900_000), after: BitsPerSecond(30_100_000) }
}
