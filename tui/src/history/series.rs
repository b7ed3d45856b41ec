// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage of values over time: a column for each tick.

use std::collections::VecDeque;

/// Number of values kept of each flow.
pub(crate) const SAMPLES: usize = 120;

/// The number of a snapshot, counted from the first.
pub(crate) type Tick = u64;

/// A kind of value, and its index in [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// Sum of the send and receive rates, bit/s.
    Rate,
    /// Smoothed RTT, seconds.
    Rtt,
    /// Energy above idle over the interval, watts.
    Watts,
}

/// Begin and end of the interval of a tick, seconds since 1970.
pub(crate) type Span = (f64, f64);

/// The values of a flow in a tick, by [`Series`]; `NaN`: unknown.
pub(super) type Values = [f32; 3];

/// The values of a tick by slot. Slots added later are missing.
#[derive(Clone, Debug, Default)]
pub(super) struct TickColumn {
    pub(super) span: Span,
    /// The values of each series, indexed by [`Series`].
    pub(super) values: [Vec<f32>; 3],
    pub(super) step: Vec<i16>,
}

impl TickColumn {
    /// Makes room for this many slots; the new ones are unknown.
    pub(super) fn resize(&mut self, slots: usize) {
        self.step.resize(slots, 0);
        self.values.iter_mut().for_each(|values| values.resize(slots, f32::NAN));
    }

    pub(super) fn at(&self, slot: usize) -> Values {
        std::array::from_fn(|series| self.values[series].get(slot).copied().unwrap_or(f32::NAN))
    }
}

/// The latest columns; the last column belongs to `tick`.
#[derive(Clone, Debug, Default)]
pub(super) struct TickColumns {
    pub(super) tick: Tick,
    pub(super) all: VecDeque<TickColumn>,
}

impl TickColumns {
    pub(super) fn begin(&mut self, tick: Tick, span: Span, slots: usize) {
        let reused = if self.all.len() == SAMPLES { self.all.pop_front() } else { None };
        let mut column = reused.unwrap_or_default();
        column.resize(0);
        column.resize(slots);
        column.span = span;
        self.all.push_back(column);
        self.tick = tick;
    }

    /// The columns of some ticks, as far as they are kept.
    pub(super) fn between(
        &self,
        from: Tick,
        to: Tick,
    ) -> impl DoubleEndedIterator<Item = &TickColumn> + ExactSizeIterator {
        let oldest = self.tick + 1 - self.all.len() as Tick;
        let index = |tick: Tick| usize::try_from(tick.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let end = if to < oldest { 0 } else { index(to + 1).min(self.all.len()) };
        self.all.range(index(from).min(end)..end)
    }
}
