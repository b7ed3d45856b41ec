// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties that hold for any samples.

use std::collections::BTreeSet;

use mpwatch_fixtures::delay_samples::{SECOND, id};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::{Micros, Nanos};
use proptest::prelude::*;

use super::detection::detect;
use crate::bottleneck::{PairEvaluation, groups};

/// Any samples that a kernel, or an edited recording, may contain.
fn any_samples() -> impl Strategy<Value = Vec<DelaySample>> {
    let step = prop_oneof![Just(1_000_000_u64), 0..50_000_000_u64, 0..20 * SECOND];
    let difference = (step, 0..60_000_u64, 0..3_u32, 0..2_u32, any::<bool>());
    proptest::collection::vec(difference, 0..400).prop_map(|steps| {
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

/// Any results for the pairs of this many subflows.
fn any_pairs(subflows: usize) -> impl Strategy<Value = Vec<PairEvaluation>> {
    let pairs: Vec<(u64, u64)> =
        (1..=subflows as u64).flat_map(|a| (a + 1..=subflows as u64).map(move |b| (a, b))).collect();
    let result = (any_verdict(), proptest::option::of(0.0..1.0_f64));
    proptest::collection::vec(result, pairs.len()).prop_map(move |results| {
        let evaluation = |((a, b), (verdict, probability)): (&(u64, u64), (Verdict, Option<f64>))| {
            PairEvaluation { a: id(*a), b: id(*b), verdict, probability, since: None, evidence: None }
        };
        pairs.iter().zip(results).map(evaluation).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_samples_are_evaluated_without_a_panic(rows in proptest::collection::vec(any_samples(), 0..5)) {
        for pair in detect(&rows) {
            prop_assert!(pair.a < pair.b);
            prop_assert!(pair.probability.is_none_or(|p| (0.0..=1.0).contains(&p)));
            prop_assert_eq!(pair.since.is_none(), pair.verdict == Verdict::Unknown);
        }
    }

    #[test]
    fn the_result_does_not_depend_on_the_order_of_the_pair(a in any_samples(), b in any_samples()) {
        let (one, other) = (detect(&[a.clone(), b.clone()]), detect(&[b, a]));
        prop_assert_eq!(one.len(), other.len());
        for (one, other) in one.iter().zip(&other) {
            prop_assert_eq!(one.verdict, other.verdict);
            let apart = one.probability.zip(other.probability).map_or(0.0, |(p, q)| (p - q).abs());
            prop_assert!(apart < 1e-6, "{:?} {:?}", one, other);
        }
    }

    #[test]
    fn groups_are_a_partition_in_any_order(pairs in any_pairs(7), shuffled in Just((1..=7).map(id).collect::<Vec<_>>()).prop_shuffle()) {
        let ids: Vec<SubflowId> = (1..=7).map(id).collect();
        let found = groups(&ids, &pairs);
        let mut members: Vec<SubflowId> = found.iter().flatten().copied().collect();
        members.sort();
        prop_assert_eq!(&members, &ids);
        let as_sets = |groups: &[Vec<SubflowId>]| -> BTreeSet<BTreeSet<SubflowId>> {
            groups.iter().map(|group| group.iter().copied().collect()).collect()
        };
        prop_assert_eq!(as_sets(&found), as_sets(&groups(&shuffled, &pairs)));
    }

    #[test]
    fn subflows_on_disjoint_paths_are_never_in_one_group(pairs in any_pairs(6)) {
        let ids: Vec<SubflowId> = (1..=6).map(id).collect();
        for group in groups(&ids, &pairs) {
            let inside = pairs.iter().filter(|pair| group.contains(&pair.a) && group.contains(&pair.b));
            prop_assert!(inside.clone().all(|pair| pair.verdict != Verdict::Disjoint));
        }
    }
}
