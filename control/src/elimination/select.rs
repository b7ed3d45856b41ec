// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the extra subflows of a connection: in each group, those that share a bottleneck with a better subflow, if the verdict is stable.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use mpwatch_model::flow::bottleneck::{Bottlenecks, PairVerdict, Verdict};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{Candidate, EliminationPolicy, Removal};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{BitsPerSecond, Micros, Nanos};

use super::history::History;
use super::paths::{Path, Paths};
use super::stability::Stability;

/// Facts about a connection from earlier snapshots.
#[derive(Default)]
pub(super) struct Known {
    pub(super) history: History,
    pub(super) stability: Stability,
    /// Subflows whose removal was decided, except removals that changed nothing. They are neither selected again nor kept as the best of a group.
    pub(super) decided: BTreeSet<SubflowId>,
}

/// Whether a verdict allows the removal of one of its two subflows. For subflows over different paths (addresses, interface), the verdict must
/// be derived from the rates of all connections: otherwise the connection might lose its last subflow over a link.
pub(super) fn is_sufficient(
    connection: &Connection,
    pair: &PairVerdict,
    paths: &Paths,
    policy: &EliminationPolicy,
) -> bool {
    let subflow = |id| connection.subflows.iter().find(|subflow| subflow.id == id);
    let Some((a, b)) = subflow(pair.a).zip(subflow(pair.b)) else { return false };
    let [path_a, path_b] =
        [a, b].map(|subflow| Path::new(connection.id.netns, subflow.local, subflow.remote));
    let is_probable = pair.probability.is_none_or(|probability| probability >= policy.probability);
    let is_shared = pair.verdict == Verdict::Shared && is_probable;
    let is_pooled = pair.evidence.is_some_and(|evidence| evidence.pooled_paths.is_some());
    let is_capped = || connection.bottlenecks.as_ref().is_some_and(|found| found.is_capped(pair));
    let is_same_path = path_a == path_b && a.interface == b.interface;
    is_shared && (is_pooled || is_same_path) && !paths.have_disjoint_verdict(path_a, path_b)
        || policy.shared_caps && is_same_path && is_capped()
}

/// The removals that the policy allows. Each group keeps its best subflow.
pub(super) fn removals(
    at: Nanos,
    connection: &Connection,
    known: &Known,
    policy: &EliminationPolicy,
) -> Vec<Removal> {
    let mut all = Vec::new();
    let mut kept = BTreeSet::new();
    for group in connection.bottlenecks.iter().flat_map(|found| groups(found, policy)) {
        let mut members = members(connection, group, &known.history);
        members.retain(|member| !known.decided.contains(&member.subflow));
        let Some(best) = members.iter().max_by_key(|member| rank(member)) else { continue };
        kept.insert(best.subflow);
        // If the best subflow is idle, a removal gains nothing. If it has just stopped, its path may have failed, and the connection needs
        // the other subflows.
        if !known.history.is_progressing(best.subflow) {
            continue;
        }
        for extra in &members {
            let stable = |better: &Candidate| {
                let is_better = rank(better) > rank(extra) && known.history.is_progressing(better.subflow);
                let stable =
                    known.stability.duration(better.subflow, extra.subflow, at).filter(|_| is_better)?;
                (stable >= policy.stable).then_some((*better, stable))
            };
            let better = members.iter().filter_map(stable).max_by_key(|(better, _)| rank(better));
            if let Some((better, stable)) = better {
                kept.insert(better.subflow);
                all.push(removal(connection, group, [better, *extra], stable, policy));
            }
        }
    }
    // Groups and caps may overlap: a subflow that another removal keeps is not removed, and each subflow is removed at most once.
    let mut gone = BTreeSet::new();
    all.retain(|removal| !kept.contains(&removal.removed.subflow) && gone.insert(removal.removed.subflow));
    all
}

/// The groups of subflows with one bottleneck, and those with one cap if the policy counts a cap as a bottleneck.
fn groups<'a>(
    found: &'a Bottlenecks,
    policy: &EliminationPolicy,
) -> impl Iterator<Item = &'a Vec<SubflowId>> {
    let caps = policy.shared_caps.then_some(&found.shared_caps);
    found.groups.iter().chain(caps.into_iter().flatten().map(|cap| &cap.subflows))
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
