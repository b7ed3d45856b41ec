// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores values over time: a column with the values of all flows for each tick.

use std::collections::VecDeque;

/// Number of ticks for which the values of a flow are kept.
pub(crate) const SAMPLES: usize = 120;

/// The number of a snapshot; the first snapshot of a run has number 1.
pub(crate) type Tick = u64;

/// A kind of value, and its index in [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// Sum of the send and receive rates, bit/s.
    Rate,
    /// Smoothed RTT, seconds.
    Rtt,
    /// Mean power above idle in the interval, watts.
    Watts,
}

/// Begin and end of the interval of a tick, in seconds since 1970.
pub(crate) type Span = (f64, f64);

/// The values of a flow in a tick, indexed by [`Series`]. `NaN`: unknown.
pub(super) type Values = [f32; 3];

/// The values of a tick, indexed by the slot of the flow. Slots that were added in a later tick are missing.
#[derive(Clone, Debug, Default)]
pub(super) struct TickColumn {
    pub(super) span: Span,
    /// The values of each series, indexed by [`Series`].
    pub(super) values: [Vec<f32>; 3],
    pub(super) step: Vec<i16>,
}

impl TickColumn {
    /// Makes room for `slots` flows. The values of new slots are unknown.
    pub(super) fn resize(&mut self, slots: usize) {
        self.step.resize(slots, 0);
        self.values.iter_mut().for_each(|values| values.resize(slots, f32::NAN));
    }

    pub(super) fn at(&self, slot: usize) -> Values {
        std::array::from_fn(|series| self.values[series].get(slot).copied().unwrap_or(f32::NAN))
    }
}

/// The latest [`SAMPLES`] columns. The last column belongs to `tick`.
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

    /// The columns of the ticks `from` to `to` that are still kept.
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
