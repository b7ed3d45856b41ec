// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has grown of each flow since the snapshot before, and what has happened to it for the first time.

use std::collections::HashMap;
use std::hash::Hash;

use mpwatch_model::metric::distribution::Distribution;
use mpwatch_model::metric::happening::Happening;
use mpwatch_model::metric::{Kind, Metric};

use super::bounded::Sums;

/// What was last seen of a flow.
struct Known {
    values: Box<[Option<f64>]>,
    /// Which of the happenings are counted, by place.
    counted: u8,
    /// Of each distribution, the occasions that are over.
    occasions: Box<[u64]>,
    tick: u64,
}

/// Follows all flows of one kind.
pub(super) struct Growth<K, T: 'static> {
    rows: Vec<&'static Metric<T>>,
    happenings: &'static [Happening<T>],
    distributions: &'static [Distribution<T>],
    known: HashMap<K, Known>,
    tick: u64,
    /// For each happening, how often in each way.
    pub(super) counts: Vec<Vec<u64>>,
    /// For each distribution, what was observed.
    pub(super) observed: Vec<Observed>,
    /// Since the last snapshot, of the flow that was looked at last.
    pub(super) grown: Sums,
}

/// A histogram.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    bounds: &'static [f64],
    /// In each bucket alone, and at the end those above all of them.
    counts: Vec<u64>,
    pub(super) sum: f64,
}

impl Observed {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    /// Upper bounds, and how many are at most that large.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().zip(&self.counts).scan(0, |below, (bound, count)| {
            *below += count;
            Some((*bound, *below))
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The rows that are counters.
pub(super) fn counters<T>(table: &'static [Metric<T>]) -> impl Iterator<Item = &'static Metric<T>> {
    table.iter().filter(|metric| metric.kind == Kind::Counter)
}

impl<K: Eq + Hash, T> Growth<K, T> {
    pub(super) fn new(
        table: &'static [Metric<T>],
        happenings: &'static [Happening<T>],
        distributions: &'static [Distribution<T>],
    ) -> Self {
        Self {
            distributions,
            observed: distributions.iter().map(|one| Observed::new(one.bounds)).collect(),
            rows: counters(table).collect(),
            happenings,
            known: HashMap::new(),
            tick: 0,
            counts: happenings.iter().map(|happening| vec![0; happening.values.len()]).collect(),
            grown: Sums::new(),
        }
    }

    /// Looks at one flow. `from_birth`: all that it has carried is new. Of one that is older than the agent only what
    /// comes from now on is, or a restart would count it twice.
    pub(super) fn look(&mut self, key: K, flow: &T, from_birth: bool) {
        let (rows, distributions, tick) = (&self.rows, self.distributions, self.tick);
        let known = self.known.entry(key).or_insert_with(|| {
            let begins_at_zero = |row: &Metric<T>| from_birth || row.unit.begins_with_tracing();
            let start = |row: &&Metric<T>| {
                let value = (row.read)(flow);
                if begins_at_zero(row) { value.map(|_| 0.0) } else { value }
            };
            Known {
                values: rows.iter().map(start).collect(),
                counted: 0,
                occasions: vec![0; distributions.len()].into(),
                tick,
            }
        });
        known.tick = tick;
        self.grown.clear();
        for (row, last) in rows.iter().zip(&mut known.values) {
            let now = (row.read)(flow);
            // A value that was not known at first begins at zero; one that goes down waits until it is higher again.
            let grown = now.map(|now| (now - last.unwrap_or(0.0)).max(0.0));
            *last = match (*last, now) {
                (Some(last), Some(now)) => Some(last.max(now)),
                (last, now) => now.or(last),
            };
            self.grown.push(grown);
        }
        for (place, happening) in self.happenings.iter().enumerate() {
            let value = (happening.of)(flow).filter(|_| known.counted & (1 << place) == 0);
            if let Some(way) = value.and_then(|value| happening.values.iter().position(|one| *one == value)) {
                known.counted |= 1 << place;
                self.counts[place][way] += 1;
            }
        }
        for ((one, over), observed) in distributions.iter().zip(&mut known.occasions).zip(&mut self.observed)
        {
            let occasions = (one.occasions)(flow);
            if occasions > *over {
                *over = occasions;
                if let Some(value) = (one.of)(flow) {
                    observed.add(value);
                }
            }
        }
    }

    /// Ends a snapshot: who was not looked at is gone, and stays in all sums.
    pub(super) fn end(&mut self) {
        let tick = self.tick;
        self.known.retain(|_, known| known.tick == tick);
        self.tick += 1;
    }
}
