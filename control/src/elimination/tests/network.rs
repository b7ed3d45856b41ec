// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated connection whose subflows have given rates and verdicts, advanced one second at a time.

use std::collections::BTreeSet;
use std::slice;

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::bottleneck::{Bottlenecks, Evidence, PairVerdict, SharedCap, Verdict};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::unit::{Bytes, Micros, Nanos};

use crate::elimination::{Decision, Eliminator};

const SECOND: u64 = 1_000_000_000;
const MEGABYTE: u64 = 1_000_000;
/// Ids of the subflows of two connections differ by a multiple of this number.
const MAX_SUBFLOWS: u64 = 100;

/// The id of a subflow of connection 1.
pub(super) fn id(number: u64) -> SubflowId {
    SubflowId { cookie: SocketCookie(number), generation: 0 }
}

/// The number of a subflow in its connection.
pub(super) fn number(id: SubflowId) -> u64 {
    id.cookie.0 % MAX_SUBFLOWS
}

/// The numbers of the subflows to be removed.
pub(super) fn removed(decisions: &[Decision]) -> Vec<u64> {
    let removed = |decision: &Decision| match decision {
        Decision::Remove(_, removal) => Some(number(removal.removed.subflow)),
        _ => None,
    };
    decisions.iter().filter_map(removed).collect()
}

/// Subflows are numbered from 1, and each has a local address of its own. Rates are megabytes per second.
pub(super) struct Network {
    pub(super) now: Nanos,
    pub(super) subflows: Vec<Subflow>,
    pub(super) rates: Vec<u64>,
    pub(super) groups: Vec<Vec<SubflowId>>,
    pub(super) pairs: Vec<PairVerdict>,
    pub(super) caps: Vec<SharedCap>,
    pub(super) is_selected: bool,
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
            caps: Vec::new(),
            is_selected: true,
            number,
        };
        for rate in rates {
            network.add(*rate);
        }
        network
    }

    pub(super) fn id(&self, number: u64) -> SubflowId {
        id(MAX_SUBFLOWS * (self.number - 1) + number)
    }

    pub(super) fn add(&mut self, rate: u64) {
        let number = self.subflows.last().map_or(0, |last| number(last.id)) + 1;
        let srtt = Some(Micros(20_000));
        let template = fixture::subflow(7, u8::try_from(number).unwrap());
        let new = Subflow { id: self.id(number), bytes_acked: Bytes(0), srtt, ..template };
        self.subflows.push(new);
        self.rates.push(rate);
    }

    /// Makes these subflows share a bottleneck. Other groups stay, unless they contain one of these subflows.
    pub(super) fn share(&mut self, numbers: &[u64], probability: f64) {
        let group: Vec<SubflowId> = numbers.iter().map(|number| self.id(*number)).collect();
        self.groups.retain(|other| other.iter().all(|subflow| !group.contains(subflow)));
        self.pairs.retain(|pair| ![pair.a, pair.b].iter().all(|subflow| group.contains(subflow)));
        for (at, a) in group.iter().enumerate() {
            let others = group.iter().skip(at + 1);
            self.pairs.extend(others.map(|b| pair(*a, *b, Verdict::Shared, Some(probability))));
        }
        self.groups.push(group);
    }

    pub(super) fn connection(&self) -> Connection {
        let (groups, pairs, shared_caps) = (self.groups.clone(), self.pairs.clone(), self.caps.clone());
        Connection {
            id: ConnectionId { netns: NetnsCookie(1), token: Token(7), birth: SocketCookie(self.number) },
            subflows: self.subflows.clone(),
            bottlenecks: Some(Bottlenecks {
                groups,
                pairs,
                shared_caps,
                ..fixture::bottleneck::disjoint(&[])
            }),
            ..fixture::connection(7, 0)
        }
    }

    /// Lets a second pass, in which each subflow sends at its rate.
    pub(super) fn pass(&mut self) {
        self.now += Nanos(SECOND);
        for (subflow, rate) in self.subflows.iter_mut().zip(&self.rates) {
            subflow.bytes_acked += Bytes(rate * MEGABYTE);
        }
    }

    /// Lets a second pass and returns the decisions on the snapshot after it.
    pub(super) fn second(&mut self, eliminator: &mut Eliminator) -> Vec<Decision> {
        self.pass();
        let connection = self.connection();
        eliminator.decide(self.now, slice::from_ref(&connection), &[(&connection, self.is_selected)])
    }

    /// Makes all subflows use one pair of addresses.
    pub(super) fn use_one_path(&mut self) {
        let Some(Subflow { local, remote, interface, .. }) = self.subflows.first().cloned() else { return };
        for subflow in &mut self.subflows {
            (subflow.local, subflow.remote, subflow.interface) = (local, remote, interface);
        }
    }

    /// Removes subflows, as after a close.
    pub(super) fn close(&mut self, numbers: &[u64]) {
        let gone: BTreeSet<SubflowId> = numbers.iter().map(|number| self.id(*number)).collect();
        let rates = self.subflows.iter().zip(&self.rates).filter(|(subflow, _)| !gone.contains(&subflow.id));
        self.rates = rates.map(|(_, rate)| *rate).collect();
        self.subflows.retain(|subflow| !gone.contains(&subflow.id));
        self.pairs.retain(|pair| !gone.contains(&pair.a) && !gone.contains(&pair.b));
        for group in &mut self.groups {
            group.retain(|subflow| !gone.contains(subflow));
        }
    }
}

/// A verdict that is derived from the rates of all connections.
pub(super) fn pair(a: SubflowId, b: SubflowId, verdict: Verdict, probability: Option<f64>) -> PairVerdict {
    let evidence = Some(Evidence { connections: Some(2), pooled_paths: Some(2), ..Evidence::default() });
    PairVerdict { a: a.min(b), b: a.max(b), verdict, probability, since: None, evidence }
}

/// Lets a second pass for several connections and returns the decisions on the snapshot after it.
pub(super) fn second(networks: &mut [Network], eliminator: &mut Eliminator) -> Vec<Decision> {
    networks.iter_mut().for_each(Network::pass);
    let connections: Vec<Connection> = networks.iter().map(Network::connection).collect();
    let selected: Vec<_> =
        connections.iter().zip(networks.iter().map(|network| network.is_selected)).collect();
    eliminator.decide(networks[0].now, &connections, &selected)
}
