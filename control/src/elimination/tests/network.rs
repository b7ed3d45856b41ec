// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated connection whose subflows have given rates and verdicts, advanced one second at a time.

use std::collections::BTreeSet;

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::bottleneck::{Bottlenecks, PairVerdict, Verdict};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::unit::{Bytes, Micros, Nanos};

use crate::elimination::{Decision, Eliminator};

const SECOND: u64 = 1_000_000_000;
const MEGABYTE: u64 = 1_000_000;

pub(super) fn id(number: u64) -> SubflowId {
    SubflowId { cookie: SocketCookie(number), generation: 0 }
}

/// The numbers of the subflows to be removed.
pub(super) fn removed(decisions: &[Decision]) -> Vec<u64> {
    let number = |decision: &Decision| match decision {
        Decision::Remove(_, removal) => Some(removal.removed.subflow.cookie.0),
        _ => None,
    };
    decisions.iter().filter_map(number).collect()
}

/// Subflows are numbered from 1. Rates are megabytes per second.
pub(super) struct Network {
    pub(super) now: Nanos,
    pub(super) subflows: Vec<Subflow>,
    pub(super) rates: Vec<u64>,
    pub(super) groups: Vec<Vec<SubflowId>>,
    pub(super) pairs: Vec<PairVerdict>,
    pub(super) is_selected: bool,
    acked: Bytes,
    number: u64,
}

impl Network {
    pub(super) fn with_rates(rates: &[u64]) -> Self {
        Self::numbered(1, rates)
    }

    /// As [`Self::with_rates`], for a connection with another number.
    pub(super) fn numbered(number: u64, rates: &[u64]) -> Self {
        let mut network = Self {
            now: Nanos(SECOND),
            subflows: Vec::new(),
            rates: Vec::new(),
            groups: Vec::new(),
            pairs: Vec::new(),
            is_selected: true,
            acked: Bytes(0),
            number,
        };
        for rate in rates {
            network.add(*rate);
        }
        network
    }

    pub(super) fn add(&mut self, rate: u64) {
        let number = self.subflows.last().map_or(0, |last| last.id.cookie.0) + 1;
        let srtt = Some(Micros(20_000));
        let new = Subflow { id: id(number), bytes_acked: Bytes(0), srtt, ..fixture::subflow(7, 1) };
        self.subflows.push(new);
        self.rates.push(rate);
    }

    /// Makes these subflows share a bottleneck. Other groups stay, unless they contain one of these subflows.
    pub(super) fn share(&mut self, numbers: &[u64], probability: f64) {
        let group: Vec<SubflowId> = numbers.iter().map(|number| id(*number)).collect();
        self.groups.retain(|other| other.iter().all(|subflow| !group.contains(subflow)));
        self.pairs.retain(|pair| ![pair.a, pair.b].iter().all(|subflow| group.contains(subflow)));
        for (at, a) in group.iter().enumerate() {
            let others = group.iter().skip(at + 1);
            self.pairs.extend(others.map(|b| pair(*a, *b, Verdict::Shared, Some(probability))));
        }
        self.groups.push(group);
    }

    pub(super) fn connection(&self) -> Connection {
        let (groups, pairs) = (self.groups.clone(), self.pairs.clone());
        Connection {
            id: ConnectionId { netns: NetnsCookie(1), token: Token(7), birth: SocketCookie(self.number) },
            bytes_acked: Some(self.acked),
            subflows: self.subflows.clone(),
            bottlenecks: Some(Bottlenecks { groups, pairs, ..fixture::bottleneck::disjoint(&[]) }),
            ..fixture::connection(7, 0)
        }
    }

    /// Lets a second pass, in which each subflow sends at its rate.
    pub(super) fn pass(&mut self) {
        self.now += Nanos(SECOND);
        for (subflow, rate) in self.subflows.iter_mut().zip(&self.rates) {
            subflow.bytes_acked += Bytes(rate * MEGABYTE);
            self.acked += Bytes(rate * MEGABYTE);
        }
    }

    /// Lets a second pass and returns the decisions on the snapshot after it.
    pub(super) fn second(&mut self, eliminator: &mut Eliminator) -> Vec<Decision> {
        self.pass();
        eliminator.decide(self.now, &[(&self.connection(), self.is_selected)])
    }

    /// Removes subflows, as after a close.
    pub(super) fn close(&mut self, numbers: &[u64]) {
        let gone: BTreeSet<SubflowId> = numbers.iter().map(|number| id(*number)).collect();
        let rates = self.subflows.iter().zip(&self.rates).filter(|(subflow, _)| !gone.contains(&subflow.id));
        self.rates = rates.map(|(_, rate)| *rate).collect();
        self.subflows.retain(|subflow| !gone.contains(&subflow.id));
        self.pairs.retain(|pair| !gone.contains(&pair.a) && !gone.contains(&pair.b));
        for group in &mut self.groups {
            group.retain(|subflow| !gone.contains(subflow));
        }
    }
}

pub(super) fn pair(a: SubflowId, b: SubflowId, verdict: Verdict, probability: Option<f64>) -> PairVerdict {
    PairVerdict { a: a.min(b), b: a.max(b), verdict, probability, since: None, evidence: None }
}
