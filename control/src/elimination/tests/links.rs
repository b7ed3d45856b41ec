// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the rules for a whole link: no connection loses its last subflow over it, and its throughput is the sum over all connections.

use mpwatch_model::flow::bottleneck::{PairVerdict, SharedCap, Verdict};
use mpwatch_model::flow::elimination::{EliminationPolicy, EliminationStep};
use mpwatch_model::unit::{BitsPerSecond, Micros};

use super::network::{Network, pair, removed, second};
use super::{POLICY, first_decisions, report};
use crate::elimination::{Decision, Eliminator};

/// Lets several seconds pass and returns all decisions. Removals are reported as done; the rates do not change.
fn seconds(count: u64, networks: &mut [Network], eliminator: &mut Eliminator) -> Vec<Decision> {
    let mut all = Vec::new();
    for _ in 0..count {
        let decisions = second(networks, eliminator);
        report(eliminator, &decisions, Some(true));
        all.extend(decisions);
    }
    all
}

/// A connection with two subflows that share a bottleneck by the samples of this connection alone.
fn own_evidence() -> Network {
    let mut network = Network::with_rates(&[10, 20]);
    network.share(&[1, 2], 0.99);
    network.pairs[0].evidence = None;
    network
}

#[test]
fn the_last_subflow_over_an_address_pair_or_an_interface_stays_unless_all_connections_were_compared() {
    let decide = |network: &mut Network| removed(&first_decisions(network, &mut Eliminator::new(POLICY)).0);
    assert_eq!(decide(&mut own_evidence()), [0_u64; 0], "two address pairs");
    let mut one_path = own_evidence();
    one_path.use_one_path();
    assert_eq!(decide(&mut one_path), [1]);
    let mut two_interfaces = own_evidence();
    two_interfaces.use_one_path();
    two_interfaces.subflows[1].interface = None;
    assert_eq!(decide(&mut two_interfaces), [0_u64; 0], "two interfaces");
    // Subflow 3 is the best, but the verdict on it rests on this connection alone.
    let mut another_path = Network::with_rates(&[10, 20]);
    another_path.use_one_path();
    another_path.add(30);
    another_path.share(&[1, 2, 3], 0.99);
    another_path.pairs.iter_mut().for_each(|pair| pair.evidence = None);
    assert_eq!(decide(&mut another_path), [1], "subflow 2 is kept for its address pair");
}

#[test]
fn nothing_is_removed_while_another_connection_contradicts() {
    // Subflow 3 shares the address pair of subflow 2.
    for (pairs, expected) in [(&[(1, 2)][..], &[][..]), (&[(2, 3)], &[]), (&[], &[1])] {
        let mut networks = [Network::with_rates(&[10, 20]), Network::numbered(2, &[10, 20, 5])];
        networks[0].share(&[1, 2], 0.99);
        let second = &mut networks[1];
        (second.subflows[2].local, second.subflows[2].remote) =
            (second.subflows[1].local, second.subflows[1].remote);
        let disjoint = |(a, b): &(u64, u64)| pair(second.id(*a), second.id(*b), Verdict::Disjoint, Some(0.1));
        second.pairs = pairs.iter().map(disjoint).collect::<Vec<PairVerdict>>();
        let decisions = seconds(6, &mut networks, &mut Eliminator::new(POLICY));
        assert_eq!(removed(&decisions), expected, "{pairs:?}");
    }
}

/// Two connections with two subflows each, all on one link. Removes subflow 1 of the first connection, then applies `rates` for 5 s.
fn after_removal(rates: [[u64; 2]; 2]) -> (Vec<Decision>, [Network; 2], Eliminator) {
    let mut networks = [Network::with_rates(&[10, 20]), Network::numbered(2, &[10, 20])];
    networks[0].share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(POLICY);
    assert_eq!(removed(&seconds(4, &mut networks, &mut eliminator)), [1]);
    for (network, rates) in networks.iter_mut().zip(rates) {
        network.rates = rates.to_vec();
    }
    let decisions = seconds(5, &mut networks, &mut eliminator);
    (decisions, networks, eliminator)
}

#[test]
fn a_gain_of_another_connection_on_the_link_compensates() {
    let (decisions, ..) = after_removal([[0, 15], [20, 25]]);
    let [Decision::Record(_, EliminationStep::Confirmed(throughput))] = &decisions[..] else {
        panic!("{decisions:?}")
    };
    assert_eq!((throughput.before.0, throughput.after.0), (480_000_000, 480_000_000));
}

#[test]
fn a_gain_of_another_path_of_the_group_compensates() {
    let mut networks = [Network::with_rates(&[10, 20, 15])];
    networks[0].share(&[1, 2, 3], 0.99);
    let mut eliminator = Eliminator::new(EliminationPolicy { max_per_minute: 1, ..POLICY });
    assert_eq!(removed(&seconds(4, &mut networks, &mut eliminator)), [1]);
    networks[0].rates = vec![0, 10, 35];
    let decisions = seconds(5, &mut networks, &mut eliminator);
    assert!(matches!(&decisions[..], [Decision::Record(_, EliminationStep::Confirmed(_))]), "{decisions:?}");
}

#[test]
fn after_a_drop_on_a_link_nothing_is_removed_over_it_for_a_minute() {
    // The first connection gains, the link carries less.
    let (decisions, mut networks, mut eliminator) = after_removal([[0, 32], [10, 11]]);
    assert!(matches!(&decisions[..], [Decision::Record(_, EliminationStep::LeftAlone(_))]), "{decisions:?}");
    networks[1].share(&[1, 2], 0.99);
    assert_eq!(seconds(59, &mut networks, &mut eliminator), []);
    assert_eq!(removed(&seconds(3, &mut networks, &mut eliminator)), [1], "after a minute");
}

#[test]
fn extra_subflows_of_another_link_do_not_wait_for_the_watch() {
    let mut networks = [Network::with_rates(&[10, 20, 10, 20])];
    networks[0].share(&[1, 2], 0.99);
    let mut eliminator = Eliminator::new(POLICY);
    assert_eq!(removed(&seconds(4, &mut networks, &mut eliminator)), [1]);
    networks[0].close(&[1]);
    networks[0].share(&[3, 4], 0.99);
    assert_eq!(removed(&seconds(4, &mut networks, &mut eliminator)), [3]);
}

#[test]
fn a_cap_counts_as_a_bottleneck_only_if_the_policy_says_so_and_never_takes_the_last_subflow_of_a_path() {
    let decide = |shared_caps, is_one_path| {
        let mut network = own_evidence();
        if is_one_path {
            network.use_one_path();
        }
        network.pairs[0].verdict = Verdict::Disjoint;
        network.groups.clear();
        network.caps = vec![SharedCap {
            subflows: vec![network.id(1), network.id(2)],
            sum: BitsPerSecond(240_000_000),
            since: Micros(1),
            sum_variation: 0.1,
        }];
        let policy = EliminationPolicy { shared_caps, ..POLICY };
        removed(&first_decisions(&mut network, &mut Eliminator::new(policy)).0)
    };
    assert_eq!(decide(true, true), [1]);
    assert_eq!(decide(false, true), [0_u64; 0]);
    assert_eq!(decide(true, false), [0_u64; 0]);
}
