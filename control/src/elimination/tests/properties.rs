// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties that hold for two connections with any sequence of verdicts, rates, roles and outcomes.

use std::collections::{BTreeMap, BTreeSet};

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{EliminationPolicy, EliminationStep};
use mpwatch_model::id::ConnectionId;
use mpwatch_model::unit::Nanos;
use proptest::prelude::*;

use super::POLICY;
use super::network::{Network, number, pair};
use crate::elimination::{Decision, Eliminator};

const SUBFLOWS: u64 = 5;
const MAX_PER_MINUTE: u32 = 3;
const MINUTE: Nanos = Nanos(60_000_000_000);

/// Rates, roles, groups and verdicts of a connection in one second. `usable`: the subflow is not a backup.
#[derive(Clone, Debug)]
struct Second {
    rates: Vec<u64>,
    usable: Vec<bool>,
    /// The number of the group of each subflow.
    group: Vec<u8>,
    verdicts: Vec<(Verdict, Option<f64>)>,
}

fn second() -> impl Strategy<Value = Second> {
    let count = usize::try_from(SUBFLOWS).unwrap();
    let probability = prop_oneof![Just(None), Just(Some(0.99)), Just(Some(0.9))];
    // Most verdicts are `Shared`, because otherwise no verdict would ever be stable.
    let verdict =
        prop_oneof![8 => Just(Verdict::Shared), 1 => Just(Verdict::Unknown), 1 => Just(Verdict::Disjoint)];
    (
        prop::collection::vec(0_u64..40, count),
        prop::collection::vec(prop::bool::weighted(0.9), count),
        prop::collection::vec(0_u8..2, count),
        prop::collection::vec((verdict, probability), 10),
    )
        .prop_map(|(rates, usable, group, verdicts)| Second { rates, usable, group, verdicts })
}

/// Pairs of states, one per connection, with the number of seconds for which they last.
fn seconds() -> impl Strategy<Value = Vec<(Second, Second, usize)>> {
    prop::collection::vec((second(), second(), 1_usize..9), 1..12)
}

fn apply(network: &mut Network, second: &Second) {
    let numbers: Vec<u64> = network.subflows.iter().map(|subflow| number(subflow.id)).collect();
    let index = |number: u64| usize::try_from(number - 1).unwrap();
    network.rates = numbers.iter().map(|number| second.rates[index(*number)]).collect();
    for (subflow, number) in network.subflows.iter_mut().zip(&numbers) {
        subflow.backup = !second.usable[index(*number)];
    }
    let members = |group: u8| numbers.iter().filter(move |number| second.group[index(**number)] == group);
    network.groups = [0, 1].map(|group| members(group).map(|number| network.id(*number)).collect()).to_vec();
    let mut verdicts = second.verdicts.iter();
    network.pairs.clear();
    for (at, a) in numbers.iter().enumerate() {
        for b in numbers.iter().skip(at + 1) {
            let (verdict, probability) = verdicts.next().unwrap();
            network.pairs.push(pair(network.id(*a), network.id(*b), *verdict, *probability));
        }
    }
}

/// Checks the properties of all decisions on one connection.
fn check(state: &Connection, decisions: &[Decision], sufficient: &BTreeMap<(u64, u64), u32>) {
    let mut gone = BTreeSet::new();
    for decision in decisions {
        let Decision::Remove(connection, removal) = decision else { continue };
        if *connection != state.id {
            continue;
        }
        let [removed, kept] = [removal.removed.subflow, removal.kept.subflow];
        assert!(gone.insert(removed), "a subflow is removed twice");
        assert!(removal.group.contains(&removed) && removal.group.contains(&kept) && removed != kept);
        let is_usable = |id| state.subflows.iter().any(|subflow| subflow.id == id && !subflow.backup);
        assert!(is_usable(removed) && is_usable(kept));
        assert!(removal.kept.goodput >= removal.removed.goodput, "keeps the best: {removal:?}");
        let (a, b) = (number(removed.min(kept)), number(removed.max(kept)));
        assert!(sufficient[&(a, b)] >= 4, "the fourth snapshot is 3 s after the first");
    }
    for group in state.bottlenecks.iter().flat_map(|found| &found.groups) {
        let usable = |id| state.subflows.iter().any(|subflow| subflow.id == id && !subflow.backup);
        let before = group.iter().filter(|id| usable(**id)).count();
        let after = group.iter().filter(|id| usable(**id) && !gone.contains(id)).count();
        assert!(before == 0 || after > 0, "a path loses its last subflow: {decisions:?}");
    }
}

/// Counts the consecutive snapshots in which each pair had a sufficient verdict.
fn count(state: &Connection, sufficient: &mut BTreeMap<(u64, u64), u32>) {
    let mut now = BTreeMap::new();
    for pair in state.bottlenecks.iter().flat_map(|found| &found.pairs) {
        if pair.verdict == Verdict::Shared && pair.probability.is_none_or(|value| value >= POLICY.probability)
        {
            let key = (number(pair.a), number(pair.b));
            now.insert(key, sufficient.get(&key).copied().unwrap_or(0) + 1);
        }
    }
    *sufficient = now;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_sequence_of_verdicts_removes_too_much(seconds in seconds(), failing in any::<u8>()) {
        let rates = vec![1; usize::try_from(SUBFLOWS).unwrap()];
        let mut networks = [Network::numbered(1, &rates), Network::numbered(2, &rates)];
        let mut sufficient = [BTreeMap::new(), BTreeMap::new()];
        let mut eliminator = Eliminator::new(EliminationPolicy { max_per_minute: MAX_PER_MINUTE, ..POLICY });
        let (mut times, mut left_alone): (Vec<(ConnectionId, Nanos)>, BTreeSet<_>) = (Vec::new(), BTreeSet::new());
        for (first, second, length) in &seconds {
            for _ in 0..*length {
                for (network, change) in networks.iter_mut().zip([first, second]) {
                    apply(network, change);
                    network.pass();
                }
                let now = networks[0].now;
                let states = [networks[0].connection(), networks[1].connection()];
                let decisions = eliminator.decide(now, &states, &[(&states[0], true), (&states[1], true)]);
                for (state, sufficient) in states.iter().zip(&mut sufficient) {
                    count(state, sufficient);
                    check(state, &decisions, sufficient);
                }
                for decision in &decisions {
                    match decision {
                        Decision::Remove(connection, removal) => {
                            prop_assert!(!left_alone.contains(connection), "a removal after a drop or a failure");
                            times.push((*connection, now));
                            let fails = times.len() % 7 == usize::from(failing);
                            eliminator.report(*connection, removal, (!fails).then_some(true));
                            let place = usize::try_from(connection.birth.0 - 1).unwrap();
                            if !fails {
                                networks[place].close(&[number(removal.removed.subflow)]);
                            }
                        }
                        Decision::Record(connection, EliminationStep::LeftAlone(_)) => {
                            left_alone.insert(*connection);
                        }
                        Decision::Record(..) | Decision::Undo(..) => {}
                    }
                }
                for state in &states {
                    let is_recent = |(id, then): &&(_, Nanos)| *id == state.id && now.since(*then) < MINUTE;
                    let recent = times.iter().filter(is_recent).count();
                    prop_assert!(recent <= usize::try_from(MAX_PER_MINUTE).unwrap());
                }
            }
        }
    }
}
