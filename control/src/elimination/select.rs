// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the extra subflows of a connection: in each group, all but the best subflow, if their verdicts are stable.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{Candidate, EliminationPolicy, Removal};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{BitsPerSecond, Micros, Nanos};

use super::history::History;
use super::stability::Stability;

/// Facts about a connection from earlier snapshots.
#[derive(Default)]
pub(super) struct Known {
    pub(super) history: History,
    pub(super) stability: Stability,
    /// Subflows whose removal was decided. The decision is final: such a subflow never becomes the best of its group again.
    pub(super) decided: BTreeSet<SubflowId>,
}

/// The removals that the policy allows. Each group keeps its best subflow, so that no path loses its last subflow.
pub(super) fn removals(
    at: Nanos,
    connection: &Connection,
    known: &Known,
    policy: &EliminationPolicy,
) -> Vec<Removal> {
    let mut all = Vec::new();
    let mut kept = BTreeSet::new();
    for group in connection.bottlenecks.iter().flat_map(|found| &found.groups) {
        let mut members = members(connection, group, &known.history);
        members.retain(|member| !known.decided.contains(&member.subflow));
        let Some(best) = members.iter().max_by_key(|member| rank(member)).copied() else { continue };
        kept.insert(best.subflow);
        // If the best subflow is idle, a removal gains nothing. If it has just stopped, its path may have failed, and the connection needs
        // the other subflows.
        if !known.history.is_progressing(best.subflow) {
            continue;
        }
        let others = members.iter().filter(|member| member.subflow != best.subflow);
        all.extend(others.filter_map(|extra| {
            let stable = known.stability.duration(best.subflow, extra.subflow, at)?;
            (stable >= policy.stable).then(|| removal(connection, group, [best, *extra], stable, policy))
        }));
    }
    // Even if groups overlapped, the best subflow of each group would stay.
    all.retain(|removal| !kept.contains(&removal.removed.subflow));
    all
}

/// The subflows of a group that carry data: established, not backup, not failed.
fn members(connection: &Connection, group: &[SubflowId], history: &History) -> Vec<Candidate> {
    let in_group = connection.subflows.iter().filter(|subflow| group.contains(&subflow.id));
    in_group
        .filter(|subflow| subflow.closed.is_none() && subflow.state == TcpState::Established)
        .filter(|subflow| !subflow.backup && !subflow.is_failed())
        .map(|subflow| Candidate {
            subflow: subflow.id,
            local: subflow.local,
            remote: subflow.remote,
            goodput: history.goodput(subflow.id),
            srtt: subflow.srtt,
        })
        .collect()
}

/// The best subflow has the highest rank: highest goodput, then lowest RTT, then lowest id.
fn rank(member: &Candidate) -> (BitsPerSecond, Reverse<Micros>, Reverse<SubflowId>) {
    (member.goodput, Reverse(member.srtt.unwrap_or(Micros(u64::MAX))), Reverse(member.subflow))
}

fn removal(
    connection: &Connection,
    group: &[SubflowId],
    [kept, removed]: [Candidate; 2],
    stable: Nanos,
    policy: &EliminationPolicy,
) -> Removal {
    let ids = [kept.subflow, removed.subflow];
    let found = connection.bottlenecks.as_ref();
    let mut pairs = found.into_iter().flat_map(|found| &found.pairs);
    let pair = pairs.find(|pair| ids.contains(&pair.a) && ids.contains(&pair.b));
    Removal {
        action: policy.action,
        method: found.map(|found| found.method).unwrap_or_default(),
        group: group.to_vec(),
        removed,
        kept,
        probability: pair.and_then(|pair| pair.probability),
        stable: stable.micros(),
        evidence: pair.and_then(|pair| pair.evidence),
    }
}
