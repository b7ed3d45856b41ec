// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any samples.

use std::collections::BTreeSet;

use mpwatch_model::unit::Micros;
use proptest::prelude::*;

use super::*;
use crate::bottleneck::groups;

/// Anything that a kernel, or a recording that someone has edited, may hold.
fn any_points() -> impl Strategy<Value = Vec<DelaySample>> {
    let step = prop_oneof![Just(1_000_000_u64), 0..50_000_000_u64, 0..20 * SECOND];
    let point = (step, 0..60_000_u64, 0..3_u32, 0..2_u32, any::<bool>());
    proptest::collection::vec(point, 0..400).prop_map(|steps| {
        let mut last = DelaySample { at: Nanos(SECOND), delivered: u32::MAX - 50, ..DelaySample::default() };
        let next = steps.into_iter().map(|(step, rtt, delivered, lost, cut)| {
            last = DelaySample {
                at: last.at + Nanos(step),
                rtt: Micros(rtt),
                delivered: last.delivered.wrapping_add(delivered),
                lost: last.lost.wrapping_add(lost),
                cut,
            };
            last
        });
        next.collect()
    })
}

fn any_verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Shared),
        Just(Verdict::Disjoint),
        Just(Verdict::NoBottleneck),
        Just(Verdict::Unknown)
    ]
}

/// Any evaluations on the pairs of so many subflows.
fn any_opinions(subflows: usize) -> impl Strategy<Value = Vec<PairEvaluation>> {
    let pairs: Vec<(u64, u64)> =
        (1..=subflows as u64).flat_map(|a| (a + 1..=subflows as u64).map(move |b| (a, b))).collect();
    let thought = (any_verdict(), proptest::option::of(0.0..1.0_f64));
    proptest::collection::vec(thought, pairs.len()).prop_map(move |thoughts| {
        let evaluation = |((a, b), (verdict, probability)): (&(u64, u64), (Verdict, Option<f64>))| {
            PairEvaluation { a: id(*a), b: id(*b), verdict, probability, since: None, evidence: None }
        };
        pairs.iter().zip(thoughts).map(evaluation).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_samples_are_judged_without_a_panic(rows in proptest::collection::vec(any_points(), 0..5)) {
        for evaluation in judged(&rows) {
            prop_assert!(evaluation.a < evaluation.b);
            prop_assert!(evaluation.probability.is_none_or(|p| (0.0..=1.0).contains(&p)));
            prop_assert_eq!(evaluation.since.is_none(), evaluation.verdict == Verdict::Unknown);
        }
    }

    #[test]
    fn a_pair_is_judged_the_same_whichever_comes_first(a in any_points(), b in any_points()) {
        let (one, other) = (judged(&[a.clone(), b.clone()]), judged(&[b, a]));
        prop_assert_eq!(one.len(), other.len());
        for (one, other) in one.iter().zip(&other) {
            prop_assert_eq!(one.verdict, other.verdict);
            let apart = one.probability.zip(other.probability).map_or(0.0, |(p, q)| (p - q).abs());
            prop_assert!(apart < 1e-6, "{:?} {:?}", one, other);
        }
    }

    #[test]
    fn groups_are_a_partition_in_any_order(evaluations in any_opinions(7), shuffled in Just((1..=7).map(id).collect::<Vec<_>>()).prop_shuffle()) {
        let ids: Vec<SubflowId> = (1..=7).map(id).collect();
        let found = groups(&ids, &evaluations);
        let mut members: Vec<SubflowId> = found.iter().flatten().copied().collect();
        members.sort();
        prop_assert_eq!(&members, &ids);
        let as_sets = |groups: &[Vec<SubflowId>]| -> BTreeSet<BTreeSet<SubflowId>> {
            groups.iter().map(|group| group.iter().copied().collect()).collect()
        };
        prop_assert_eq!(as_sets(&found), as_sets(&groups(&shuffled, &evaluations)));
    }

    #[test]
    fn subflows_on_disjoint_paths_are_never_in_one_group(evaluations in any_opinions(6)) {
        let ids: Vec<SubflowId> = (1..=6).map(id).collect();
        for group in groups(&ids, &evaluations) {
            let inside = evaluations.iter().filter(|o| group.contains(&o.a) && group.contains(&o.b));
            prop_assert!(inside.clone().all(|evaluation| evaluation.verdict != Verdict::Disjoint));
        }
    }
}
