// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes groups of subflows that share a bottleneck from the verdicts on pairs.

use std::collections::BTreeMap;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;

use super::evaluation::{PairEvaluation, SubflowPair, pair_of};

/// Minimum mean probability of sharing between two groups that are merged.
const MIN_LINKAGE: f64 = 0.8;

/// Partitions the subflows by average linkage. Two groups are merged if a pair between them is `Shared`, no pair is `Disjoint` or
/// `NoBottleneck`, and the mean probability is high, so that one wrong verdict does not join two bottlenecks. The result is in the order of
/// `subflows`.
pub fn groups(subflows: &[SubflowId], pairs: &[PairEvaluation]) -> Vec<Vec<SubflowId>> {
    if !pairs.iter().any(|pair| pair.verdict == Verdict::Shared) {
        return subflows.iter().map(|subflow| vec![*subflow]).collect();
    }
    let by_ids: ByIds<'_> = pairs.iter().map(|pair| (pair_of(pair.a, pair.b), pair)).collect();
    // Sorted by id, so that ties do not depend on the order of `subflows`.
    let mut sorted = subflows.to_vec();
    sorted.sort_unstable();
    let mut groups: Vec<Vec<SubflowId>> = sorted.into_iter().map(|subflow| vec![subflow]).collect();
    while let Some((into, from)) = closest(&groups, &by_ids) {
        let moved = groups.remove(from);
        groups[into].extend(moved);
    }
    let position = |subflow: &SubflowId| subflows.iter().position(|other| other == subflow);
    for group in &mut groups {
        group.sort_by_key(position);
    }
    groups.sort_by_key(|group| group.first().and_then(position));
    groups
}

type ByIds<'a> = BTreeMap<SubflowPair, &'a PairEvaluation>;

/// Indices of the two groups with the highest linkage, the lower index first. `None`: no two groups can be merged.
fn closest(groups: &[Vec<SubflowId>], by_ids: &ByIds<'_>) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (into, group) in groups.iter().enumerate() {
        for (from, other) in groups.iter().enumerate().skip(into + 1) {
            if let Some(linkage) = linkage(group, other, by_ids)
                && best.is_none_or(|(highest, ..)| linkage > highest)
            {
                best = Some((linkage, into, from));
            }
        }
    }
    best.map(|(_, into, from)| (into, from))
}

/// Mean probability of sharing between two groups. `None`: they must not be merged.
fn linkage(group: &[SubflowId], other: &[SubflowId], by_ids: &ByIds<'_>) -> Option<f64> {
    let (mut sum, mut count, mut shared) = (0.0, 0.0, false);
    let pairs = group.iter().flat_map(|a| other.iter().filter_map(|b| by_ids.get(&pair_of(*a, *b))));
    for pair in pairs {
        let probability = match pair.verdict {
            Verdict::Disjoint | Verdict::NoBottleneck => return None,
            Verdict::Shared => pair.probability.or(Some(1.0)),
            Verdict::Unknown => pair.probability,
        };
        shared |= pair.verdict == Verdict::Shared;
        sum += probability.unwrap_or(0.0);
        count += f64::from(u8::from(probability.is_some()));
    }
    let linkage = sum / count;
    (shared && linkage > MIN_LINKAGE).then_some(linkage)
}
