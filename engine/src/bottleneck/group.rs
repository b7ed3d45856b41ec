// SPDX-License-Identifier: MIT OR Apache-2.0
//! From verdicts on pairs to groups of subflows that share a bottleneck.

use std::collections::BTreeMap;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;

use super::evaluation::PairEvaluation;

/// Minimum mean probability of sharing between two groups that are merged.
const MIN_LINKAGE: f64 = 0.8;

/// Partitions the subflows by average linkage. Two groups are merged if at least one pair between them shares, none is disjoint, and the
/// mean probability is high; so one wrong pair does not join two bottlenecks. Groups and their members are in the order of `subflows`.
pub fn groups(subflows: &[SubflowId], pairs: &[PairEvaluation]) -> Vec<Vec<SubflowId>> {
    if !pairs.iter().any(|pair| pair.verdict == Verdict::Shared) {
        return subflows.iter().map(|subflow| vec![*subflow]).collect();
    }
    let by_ids: BTreeMap<(SubflowId, SubflowId), &PairEvaluation> =
        pairs.iter().map(|pair| (ordered(pair.a, pair.b), pair)).collect();
    // By id, so that ties do not depend on the order of the subflows.
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

fn ordered(a: SubflowId, b: SubflowId) -> (SubflowId, SubflowId) {
    if a <= b { (a, b) } else { (b, a) }
}

/// The two groups with the highest linkage, the lower index first. `None`: no two can be merged.
fn closest(
    groups: &[Vec<SubflowId>],
    by_ids: &BTreeMap<(SubflowId, SubflowId), &PairEvaluation>,
) -> Option<(usize, usize)> {
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
fn linkage(
    group: &[SubflowId],
    other: &[SubflowId],
    by_ids: &BTreeMap<(SubflowId, SubflowId), &PairEvaluation>,
) -> Option<f64> {
    let (mut sum, mut count, mut shared) = (0.0, 0.0, false);
    for a in group {
        for b in other {
            let pair = by_ids.get(&ordered(*a, *b));
            match pair.map(|pair| pair.verdict) {
                Some(Verdict::Disjoint | Verdict::NoBottleneck) => return None,
                Some(Verdict::Shared) => {
                    shared = true;
                    sum += pair.and_then(|pair| pair.probability).unwrap_or(1.0);
                    count += 1.0;
                }
                Some(Verdict::Unknown) => {
                    if let Some(probability) = pair.and_then(|pair| pair.probability) {
                        sum += probability;
                        count += 1.0;
                    }
                }
                None => {}
            }
        }
    }
    let linkage = sum / count;
    (shared && linkage > MIN_LINKAGE).then_some(linkage)
}
