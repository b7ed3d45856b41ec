// SPDX-License-Identifier: MIT OR Apache-2.0
//! From evaluations on pairs to groups: which subflows are behind one bottleneck.

use std::collections::BTreeMap;

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;

use super::evaluation::PairEvaluation;

/// Two groups become one only if on average this much speaks for it.
const LIKELY: f64 = 0.8;

/// The subflows in groups: a partition, each group and the list of groups in the order of `subflows`. Groups grow from pairs that
/// share by average linkage: of all pairs between two groups none may be disjoint, at least one shares, and on average they probably
/// do; so one wrong pair does not chain two bottlenecks together.
pub fn groups(subflows: &[SubflowId], evaluations: &[PairEvaluation]) -> Vec<Vec<SubflowId>> {
    if !evaluations.iter().any(|evaluation| evaluation.verdict == Verdict::Shared) {
        return subflows.iter().map(|subflow| vec![*subflow]).collect();
    }
    let by_pair: BTreeMap<(SubflowId, SubflowId), &PairEvaluation> =
        evaluations.iter().map(|evaluation| (ordered(evaluation.a, evaluation.b), evaluation)).collect();
    // By id, so that what is equally likely does not depend on the order.
    let mut sorted = subflows.to_vec();
    sorted.sort_unstable();
    let mut groups: Vec<Vec<SubflowId>> = sorted.into_iter().map(|subflow| vec![subflow]).collect();
    while let Some((into, from)) = closest(&groups, &by_pair) {
        let moved = groups.remove(from);
        groups[into].extend(moved);
    }
    let place = |subflow: &SubflowId| subflows.iter().position(|other| other == subflow);
    for group in &mut groups {
        group.sort_by_key(place);
    }
    groups.sort_by_key(|group| group.first().and_then(place));
    groups
}

fn ordered(a: SubflowId, b: SubflowId) -> (SubflowId, SubflowId) {
    if a <= b { (a, b) } else { (b, a) }
}

/// The two groups that belong together most, the lower index first. `None`: no two do.
fn closest(
    groups: &[Vec<SubflowId>],
    by_pair: &BTreeMap<(SubflowId, SubflowId), &PairEvaluation>,
) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (into, group) in groups.iter().enumerate() {
        for (from, other) in groups.iter().enumerate().skip(into + 1) {
            if let Some(linkage) = linkage(group, other, by_pair)
                && best.is_none_or(|(most, ..)| linkage > most)
            {
                best = Some((linkage, into, from));
            }
        }
    }
    best.map(|(_, into, from)| (into, from))
}

fn linkage(
    group: &[SubflowId],
    other: &[SubflowId],
    by_pair: &BTreeMap<(SubflowId, SubflowId), &PairEvaluation>,
) -> Option<f64> {
    let (mut sum, mut count, mut shared) = (0.0, 0.0, false);
    for a in group {
        for b in other {
            let evaluation = by_pair.get(&ordered(*a, *b));
            match evaluation.map(|evaluation| evaluation.verdict) {
                Some(Verdict::Disjoint | Verdict::NoBottleneck) => return None,
                Some(Verdict::Shared) => {
                    shared = true;
                    sum += evaluation.and_then(|evaluation| evaluation.probability).unwrap_or(1.0);
                    count += 1.0;
                }
                Some(Verdict::Unknown) => {
                    if let Some(probability) = evaluation.and_then(|evaluation| evaluation.probability) {
                        sum += probability;
                        count += 1.0;
                    }
                }
                None => {}
            }
        }
    }
    let linkage = sum / count;
    (shared && linkage > LIKELY).then_some(linkage)
}
