// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of each elimination rule, and of properties that hold for any sequence of snapshots.

mod links;
mod network;
mod properties;

use std::ops::RangeInclusive;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{EliminationAction, EliminationPolicy, EliminationStep};
use mpwatch_model::unit::Micros;

use super::{Decision, Eliminator};
use network::{Network, id, removed};

const POLICY: EliminationPolicy = EliminationPolicy {
    action: EliminationAction::Close,
    stable: mpwatch_model::unit::Nanos(3_000_000_000),
    probability: 0.95,
    max_per_minute: 10,
    shared_caps: false,
};

/// Evaluates one snapshot per second, at most ten, until one causes decisions. Returns the decisions and the number of seconds.
fn first_decisions(network: &mut Network, eliminator: &mut Eliminator) -> (Vec<Decision>, u64) {
    for second in 1..=10 {
        let decisions = network.second(eliminator);
        if !decisions.is_empty() {
            return (decisions, second);
        }
    }
    (Vec::new(), 10)
}

/// Reports the outcome of all removals.
fn report(eliminator: &mut Eliminator, decisions: &[Decision], is_done: Option<bool>) {
    for decision in decisions {
        let Decision::Remove(connection, removal) = decision else { continue };
        eliminator.report(*connection, removal, is_done);
    }
}

#[test]
fn all_but_the_best_subflow_of_a_group_are_removed() {
    let mut network = Network::with_rates(&[10, 30, 20]);
    network.share(&[1, 2, 3], 0.99);
    let (decisions, second) = first_decisions(&mut network, &mut Eliminator::new(POLICY));
    assert_eq!(removed(&decisions), [1, 3], "subflow 2 has the highest goodput");
    assert_eq!(second, 4, "stable for 3 s since the first snapshot");
    let Decision::Remove(_, removal) = &decisions[0] else { panic!("{decisions:?}") };
    assert_eq!((removal.kept.subflow, removal.stable), (id(2), Micros(3_000_000)));
    assert_eq!(removal.probability, Some(0.99));
}

#[test]
fn between_equal_goodputs_the_lower_rtt_is_better() {
    let mut network = Network::with_rates(&[20, 20]);
    network.share(&[1, 2], 0.99);
    network.subflows[0].srtt = Some(Micros(30_000));
    network.subflows[1].srtt = Some(Micros(20_000));
    let (decisions, _) = first_decisions(&mut network, &mut Eliminator::new(POLICY));
    assert_eq!(removed(&decisions), [1]);
}

#[test]
fn each_group_keeps_its_best_subflow_and_disjoint_ones_stay() {
    let mut network = Network::with_rates(&[10, 20, 5, 4, 3]);
    network.share(&[1, 2], 0.99);
    network.share(&[3, 4], 0.99);
    let (decisions, _) = first_decisions(&mut network, &mut Eliminator::new(POLICY));
    assert_eq!(removed(&decisions), [1, 4]);
}

#[test]
fn nothing_is_removed_without_a_stable_and_probable_verdict() {
    let none = |change: &dyn Fn(&mut Network)| {
        let mut network = Network::with_rates(&[10, 20]);
        network.share(&[1, 2], 0.99);
        change(&mut network);
        first_decisions(&mut network, &mut Eliminator::new(POLICY)).0
    };
    assert_eq!(removed(&none(&|_| {})), [1]);
    let empty: [Decision; 0] = [];
    assert_eq!(none(&|network| network.share(&[1, 2], 0.94)), empty);
    assert_eq!(none(&|network| network.pairs[0].verdict = Verdict::Unknown), empty);
    assert_eq!(none(&|network| network.pairs[0].verdict = Verdict::Disjoint), empty);
    assert_eq!(none(&|network| network.subflows[0].backup = true), empty, "a backup");
    assert_eq!(none(&|network| network.rates = vec![0, 0]), empty, "nothing flows");
}

#[test]
fn nothing_is_removed_while_the_best_subflow_makes_no_progress() {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(POLICY);
    for _ in 0..3 {
        assert_eq!(network.second(&mut eliminator), []);
    }
    // The path of subflow 2 fails. Its mean goodput over 5 s is still the highest, and the verdict is unchanged.
    network.rates = vec![10, 0];
    assert_eq!(network.second(&mut eliminator), []);
    network.rates = vec![10, 20];
    assert_eq!(removed(&network.second(&mut eliminator)), [1]);
}

#[test]
fn an_insufficient_verdict_restarts_the_time_of_stability() {
    let mut network = Network::with_rates(&[10, 20]);
    let mut eliminator = Eliminator::new(POLICY);
    for second in 0..30 {
        network.share(&[1, 2], if second % 3 == 2 { 0.9 } else { 0.99 });
        assert_eq!(network.second(&mut eliminator), [], "second {second}");
    }
}

#[test]
fn a_verdict_without_a_probability_is_sufficient() {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    network.pairs[0].probability = None;
    let (decisions, _) = first_decisions(&mut network, &mut Eliminator::new(POLICY));
    assert_eq!(removed(&decisions), [1]);
}

#[test]
fn a_removal_is_decided_once_and_after_a_failure_nothing_more_is_removed() {
    for is_planned in [true, false] {
        let mut network = Network::with_rates(&[10, 20, 15]);
        network.share(&[1, 2], 0.99);
        let mut eliminator = Eliminator::new(POLICY);
        let (decisions, _) = first_decisions(&mut network, &mut eliminator);
        if !is_planned {
            report(&mut eliminator, &decisions, None);
        }
        network.share(&[1, 2, 3], 0.99);
        let (later, _) = first_decisions(&mut network, &mut eliminator);
        let expected: &[u64] = if is_planned { &[3] } else { &[] };
        assert_eq!(removed(&later), expected, "planned: {is_planned}");
    }
}

#[test]
fn a_removal_is_decided_again_if_the_kept_subflow_made_no_progress() {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(EliminationPolicy { max_per_minute: 1, ..POLICY });
    let (decisions, _) = first_decisions(&mut network, &mut eliminator);
    report(&mut eliminator, &decisions, Some(false));
    assert_eq!(removed(&network.second(&mut eliminator)), [1]);
}

#[test]
fn the_connection_that_was_left_alone_first_is_forgotten_first() {
    const LIMIT: u64 = 16_384;
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(POLICY);
    let (decisions, _) = first_decisions(&mut network, &mut eliminator);
    let Decision::Remove(_, removal) = &decisions[0] else { panic!("{decisions:?}") };
    let mut left_alone = |numbers: RangeInclusive<u64>| {
        network.pass();
        let all: Vec<Connection> =
            numbers.map(|number| Network::numbered(number, &[]).connection()).collect();
        let passed: Vec<_> = all.iter().map(|connection| (connection, true)).collect();
        eliminator.decide(network.now, &all, &passed);
        for connection in &all {
            eliminator.report(connection.id, removal, None);
        }
        let is_left_alone = |number| eliminator.is_left_alone(Network::numbered(number, &[]).connection().id);
        [1, LIMIT, LIMIT + 1].map(is_left_alone)
    };
    // The connection with the highest id is the first that is left alone.
    assert_eq!(left_alone(LIMIT + 1..=LIMIT + 1), [false, false, true]);
    assert_eq!(left_alone(1..=LIMIT), [true, true, true]);
    assert_eq!(left_alone(1..=1), [true, true, false]);
}

#[test]
fn the_limit_per_minute_holds_for_each_connection() {
    let mut network = Network::with_rates(&[10, 20, 30, 40]);
    network.share(&[1, 2, 3, 4], 0.99);
    let mut eliminator = Eliminator::new(EliminationPolicy { max_per_minute: 2, ..POLICY });
    let (first, _) = first_decisions(&mut network, &mut eliminator);
    assert_eq!(removed(&first), [1, 2]);
    let mut later = Vec::new();
    let seconds = (1..=70).find(|_| {
        later = network.second(&mut eliminator);
        !later.is_empty()
    });
    assert_eq!((removed(&later), seconds), (vec![3], Some(60)));
    let mut other = Network::numbered(2, &[10, 20, 30, 40]);
    other.now = network.now;
    other.share(&[1, 2, 3, 4], 0.99);
    assert_eq!(removed(&first_decisions(&mut other, &mut eliminator).0), [1, 2], "another connection");
}

/// Removes subflow 1, and then gives subflow 2 the rate `kept_rate`.
fn after_removal(action: EliminationAction, kept_rate: u64) -> (Vec<Decision>, Network, Eliminator) {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(EliminationPolicy { action, ..POLICY });
    let (decisions, _) = first_decisions(&mut network, &mut eliminator);
    report(&mut eliminator, &decisions, Some(true));
    network.rates = vec![0, kept_rate];
    let (decisions, _) = first_decisions(&mut network, &mut eliminator);
    (decisions, network, eliminator)
}

#[test]
fn a_throughput_that_holds_is_confirmed_after_five_seconds() {
    let (decisions, mut network, mut eliminator) = after_removal(EliminationAction::Close, 28);
    let [Decision::Record(_, EliminationStep::Confirmed(throughput))] = &decisions[..] else {
        panic!("{decisions:?}")
    };
    assert_eq!((throughput.before.0, throughput.after.0), (240_000_000, 224_000_000));
    // A later extra subflow is removed as well.
    network.add(1);
    network.share(&[2, 3], 0.99);
    assert_eq!(removed(&first_decisions(&mut network, &mut eliminator).0), [3]);
}

#[test]
fn after_a_drop_the_connection_is_left_alone_and_backups_are_undone() {
    for action in EliminationAction::ALL {
        let (decisions, mut network, mut eliminator) = after_removal(action, 26);
        assert!(matches!(&decisions[0], Decision::Record(_, EliminationStep::LeftAlone(_))), "{decisions:?}");
        let undone: Vec<_> =
            decisions.iter().filter(|decision| matches!(decision, Decision::Undo(..))).collect();
        assert_eq!(undone.len(), usize::from(action == EliminationAction::Backup));
        network.add(1);
        network.share(&[2, 3], 0.99);
        assert_eq!(first_decisions(&mut network, &mut eliminator).0, []);
    }
}

#[test]
fn a_dry_run_plans_no_more_than_would_be_removed() {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(POLICY);
    let (decisions, _) = first_decisions(&mut network, &mut eliminator);
    assert_eq!(removed(&decisions), [1]);
    // The dry run did not remove subflow 1, which now carries more than subflow 2.
    network.rates = vec![90, 20];
    assert_eq!(first_decisions(&mut network, &mut eliminator).0, []);
}

#[test]
fn the_throughput_is_watched_also_when_the_connection_is_no_longer_selected() {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(EliminationPolicy { action: EliminationAction::Backup, ..POLICY });
    let (decisions, _) = first_decisions(&mut network, &mut eliminator);
    report(&mut eliminator, &decisions, Some(true));
    assert!(eliminator.is_watching(network.connection().id));
    network.rates = vec![0, 10];
    network.is_selected = false;
    let (decisions, _) = first_decisions(&mut network, &mut eliminator);
    let [Decision::Record(_, EliminationStep::LeftAlone(_)), Decision::Undo(..)] = &decisions[..] else {
        panic!("{decisions:?}")
    };
    assert!(!eliminator.is_watching(network.connection().id));
}

#[test]
fn nothing_is_removed_from_a_connection_that_is_not_selected() {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    network.is_selected = false;
    assert_eq!(first_decisions(&mut network, &mut Eliminator::new(POLICY)).0, []);
}

#[test]
fn a_connection_that_nearly_stops_is_not_watched_to_the_end() {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(POLICY);
    let (decisions, _) = first_decisions(&mut network, &mut eliminator);
    report(&mut eliminator, &decisions, Some(true));
    network.rates = vec![0, 1];
    let (decisions, seconds) = first_decisions(&mut network, &mut eliminator);
    assert!(matches!(decisions[..], [Decision::Record(_, EliminationStep::LeftAlone(_))]), "{decisions:?}");
    assert_eq!(seconds, 2);
}
