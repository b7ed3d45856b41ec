// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series of single flows, for those who ask for them: the largest connections and their subflows. One that closed is shown
//! with its finals for five more minutes.

use std::collections::HashMap;
use std::hash::Hash;

use jiff::{SignedDuration, Timestamp};
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::metric::{InfoMetric, Kind, Metric};

use super::bounded::{Bounded, Limits, Sums};

/// How long the finals of a flow are shown.
const LINGER: SignedDuration = SignedDuration::from_mins(5);
/// Subflows of a connection that have series of their own.
pub(super) const SUBFLOWS_EACH: usize = 8;

/// A subflow of a connection.
pub(super) type SubflowKey = (ConnectionId, SubflowId);

/// Flows of one kind with series of their own.
pub(super) struct Top<K, T: 'static> {
    sums: Bounded<K>,
    table: &'static [Metric<T>],
    identity: &'static InfoMetric<T>,
    /// Who each is, and its gauges in the order of the table.
    faces: HashMap<K, (Vec<String>, Sums)>,
}

/// What is shown of them: nothing of it changes any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// Each with its ids, who it is, its counters and its gauges.
    pub(super) flows: Vec<(Vec<String>, Vec<String>, Sums, Sums)>,
    /// Counters of all others.
    pub(super) other: Sums,
}

fn limits(most: usize) -> Limits {
    Limits { live: most, all: most.saturating_mul(2), linger: Some(LINGER) }
}

impl<K: Copy + Eq + Hash + Ord, T> Top<K, T> {
    pub(super) fn new(most: usize, table: &'static [Metric<T>], identity: &'static InfoMetric<T>) -> Self {
        Self { sums: Bounded::new(limits(most)), table, identity, faces: HashMap::new() }
    }

    pub(super) fn limit(&mut self, most: usize) {
        self.sums.limit(limits(most));
    }

    pub(super) fn select(&mut self, at: Timestamp, living: HashMap<K, u64>) {
        self.sums.select(at, living);
        let sums = &self.sums;
        self.faces.retain(|key, _| sums.has(key));
    }

    pub(super) fn has(&self, key: &K) -> bool {
        self.sums.has(key)
    }

    pub(super) fn charge(&mut self, key: K, flow: &T, grown: &[Option<f64>], is_still: bool) {
        if is_still {
            self.sums.keep(key, grown);
        } else {
            self.sums.charge(key, grown);
        }
        if self.sums.has(&key) {
            let gauges = self.table.iter().filter(|row| row.kind == Kind::Gauge && row.is_exported());
            let gauges = gauges.map(|row| (row.read)(flow)).collect();
            self.faces.insert(key, ((self.identity.read)(flow), gauges));
        }
    }

    pub(super) fn merged(&self) -> u64 {
        self.sums.merged()
    }

    /// `ids`: the labels that name one.
    pub(super) fn shown(&self, ids: impl Fn(&K) -> Vec<String>) -> Shown {
        let flows = self.sums.shown().filter_map(|(key, sums)| {
            let (face, gauges) = self.faces.get(&key)?;
            Some((ids(&key), face.clone(), sums.clone(), gauges.clone()))
        });
        Shown { flows: flows.collect(), other: self.sums.other().clone() }
    }
}
