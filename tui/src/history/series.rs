// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage of values over time: a column for each tick.

use std::collections::VecDeque;

/// Number of values kept of each flow.
pub(crate) const SAMPLES: usize = 120;

/// The number of a snapshot, counted from the first.
pub(crate) type Tick = u64;

/// A kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// Sent and received, bit/s.
    Rate,
    /// Smoothed RTT, seconds.
    Rtt,
    /// Energy above idle over the interval, watts.
    Watts,
}

/// Begin and end of the interval of a tick, seconds since 1970.
pub(crate) type Span = (f64, f64);

/// The values of a tick by slot; `NaN`: unknown. Slots added later are missing.
#[derive(Clone, Debug, Default)]
pub(super) struct TickColumn {
    pub(super) span: Span,
    pub(super) rate: Vec<f32>,
    pub(super) rtt: Vec<f32>,
    pub(super) watts: Vec<f32>,
    pub(super) step: Vec<i16>,
}

impl TickColumn {
    fn clear(&mut self, slots: usize) {
        self.step.clear();
        self.step.resize(slots, 0);
        for values in [&mut self.rate, &mut self.rtt, &mut self.watts] {
            values.clear();
            values.resize(slots, f32::NAN);
        }
    }

    pub(super) fn values(&self, series: Series) -> &[f32] {
        match series {
            Series::Rate => &self.rate,
            Series::Rtt => &self.rtt,
            Series::Watts => &self.watts,
        }
    }

    pub(super) fn at(&self, series: Series, slot: usize) -> f32 {
        self.values(series).get(slot).copied().unwrap_or(f32::NAN)
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
        column.clear(slots);
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
