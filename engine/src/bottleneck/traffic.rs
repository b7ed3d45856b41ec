// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks at low cost, from the rates and RTTs of a connection's subflows, whether traffic has changed since the verdicts were reached.

use std::collections::BTreeMap;

use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::feature::MIN_SAMPLES_PER_SECOND;

/// Rates are measured over intervals of at least this length.
const RATE_INTERVAL: Nanos = Nanos(1_000_000_000);
/// Traffic that follows this much time with too few samples for an evaluation counts as new.
const IDLE_AFTER: Nanos = Nanos(3_000_000_000);
/// A value is out of range above the highest earlier value times this factor, or below the lowest earlier value divided by it.
const CHANGE_FACTOR: f64 = 1.5;

/// A change of traffic; a later variant outranks an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    #[default]
    None,
    /// A rate or RTT is out of its range.
    OutOfRange,
    /// A subflow was added or removed, or traffic resumes after an idle period.
    Restart,
}

/// The traffic of one connection.
#[derive(Default)]
pub(super) struct Traffic {
    subflows: BTreeMap<SubflowId, Subflow>,
    /// Range of the total rate, in segments per second.
    rates: Range,
    /// The current interval: when it began, and the segments delivered and samples added since.
    since: Nanos,
    segments: u64,
    samples: usize,
    /// End of the last interval with enough samples to be evaluated.
    active: Nanos,
}

struct Subflow {
    delivered: u32,
    /// Range of the lowest RTT of each batch, in microseconds. A single delayed acknowledgement does not raise the lowest RTT.
    rtts: Range,
}

/// The lowest and highest value so far. `None`: no value.
#[derive(Clone, Copy, Default)]
struct Range(Option<(f64, f64)>);

impl Range {
    /// Extends the range by a value, or only checks whether the value is out of range.
    fn add(&mut self, value: f64, only_check: bool) -> Change {
        let (low, high) = self.0.unwrap_or((value, value));
        if !only_check {
            self.0 = Some((low.min(value), high.max(value)));
        } else if value > high * CHANGE_FACTOR || value * CHANGE_FACTOR < low {
            return Change::OutOfRange;
        }
        Change::None
    }
}

impl Traffic {
    /// Adds samples. Ranges are extended while verdicts are evaluated, and only checked while evaluation is suspended.
    pub(super) fn add(&mut self, id: SubflowId, samples: &[DelaySample], is_suspended: bool) -> Change {
        let (Some(last), Some(rtt)) = (samples.last(), samples.iter().map(|sample| sample.rtt.0).min())
        else {
            return Change::None;
        };
        let Some(subflow) = self.subflows.get_mut(&id) else {
            self.subflows.insert(id, Subflow { delivered: last.delivered, rtts: Range::default() });
            return self.restart();
        };
        self.segments += u64::from(last.delivered.wrapping_sub(subflow.delivered));
        self.samples += samples.len();
        subflow.delivered = last.delivered;
        let rtt_change = subflow.rtts.add(rtt as f64, is_suspended);
        rtt_change.max(self.measure(last.at, is_suspended))
    }

    pub(super) fn forget(&mut self, id: SubflowId) -> Change {
        if self.subflows.remove(&id).is_some() { self.restart() } else { Change::None }
    }

    /// Ends the interval if it is long enough.
    fn measure(&mut self, now: Nanos, is_suspended: bool) -> Change {
        let elapsed = now.since(self.since);
        // Batches of different subflows overlap in time, so small steps back are normal; after a large step back, the clock was set back.
        if elapsed < RATE_INTERVAL && self.since.since(now) < RATE_INTERVAL {
            return Change::None;
        }
        let (segments, samples) = (self.segments as f64, self.samples as f64);
        (self.since, self.segments, self.samples) = (now, 0, 0);
        if elapsed == Nanos(0) || samples < MIN_SAMPLES_PER_SECOND * elapsed.seconds() {
            return Change::None;
        }
        let idle_for = now.since(self.active);
        self.active = now;
        if idle_for > IDLE_AFTER {
            return self.restart();
        }
        self.rates.add(segments / elapsed.seconds(), is_suspended)
    }

    fn restart(&mut self) -> Change {
        self.forget_ranges();
        Change::Restart
    }

    /// Starts new ranges, because the verdicts have changed.
    pub(super) fn forget_ranges(&mut self) {
        self.rates = Range::default();
        for subflow in self.subflows.values_mut() {
            subflow.rtts = Range::default();
        }
    }
}
