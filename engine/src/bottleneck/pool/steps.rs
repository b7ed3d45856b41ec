// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delivered bytes of one path in steps of 50 ms: the sum over all subflows that use the path.

use std::collections::VecDeque;

use mpwatch_model::unit::Nanos;

/// Length of a step, nanoseconds.
pub(super) const STEP_NS: u64 = 50_000_000;
/// Number of steps kept: the longest window, and a reserve for samples that arrive late. The lowest RTT of these 10 s is the base RTT.
const MAX_STEPS: usize = 200;
/// A packet was queued if its RTT exceeds the base RTT by more than this and by more than a tenth of the base RTT.
const QUEUED_US: u32 = 1_000;
/// Bytes acknowledged after a gap longer than this (200 ms) were not delivered evenly over the gap: they count in its last step.
const MAX_GAP: u64 = 200_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    bytes: f64,
    /// Lowest RTT of each half of the samples: segments that enter a queue together wait equally long. `None`: no sample.
    halves_us: [Option<u32>; 2],
}

impl Step {
    /// Lowest RTT of all samples.
    fn rtt_us(&self) -> Option<u32> {
        self.halves_us.into_iter().flatten().min()
    }
}

/// The steps of one path.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Number of the first step, counted from boot.
    first: u64,
    steps: VecDeque<Step>,
}

impl Steps {
    /// Adds bytes that left the queue between two times, and the RTT at the second one. `half`: the half of the samples (0 or 1) that it belongs to.
    pub(super) fn add(&mut self, from: Nanos, to: Nanos, bytes: f64, (rtt_us, half): (u32, usize)) {
        if let Some(step) = self.step(to.0 / STEP_NS) {
            let lowest = &mut step.halves_us[half];
            *lowest = Some(lowest.map_or(rtt_us, |lowest| lowest.min(rtt_us)));
        }
        let length = to.0.saturating_sub(from.0);
        let (first, last) = (from.0 / STEP_NS, to.0 / STEP_NS);
        if length > MAX_GAP || first == last {
            self.deliver(last, bytes);
            return;
        }
        for number in first..=last {
            let begin = from.0.max(number * STEP_NS);
            let end = to.0.min((number + 1).saturating_mul(STEP_NS));
            self.deliver(number, bytes * end.saturating_sub(begin) as f64 / length as f64);
        }
    }

    fn deliver(&mut self, number: u64, bytes: f64) {
        if let Some(step) = self.step(number) {
            step.bytes += bytes;
        }
    }

    /// The step with this number, appended if it is new. `None`: it is older than all steps that are kept.
    fn step(&mut self, number: u64) -> Option<&mut Step> {
        let end = self.first + self.steps.len() as u64;
        if self.steps.is_empty()
            || number >= end + MAX_STEPS as u64
            || number + (MAX_STEPS as u64) < self.first
        {
            (self.first, self.steps) = (number, VecDeque::from([Step::default()]));
        } else if number >= end {
            let excess = usize::try_from(number + 1 - self.first).unwrap_or(0).saturating_sub(MAX_STEPS);
            self.steps.drain(..excess.min(self.steps.len()));
            self.first += excess as u64;
            let length = usize::try_from(number + 1 - self.first).unwrap_or(0);
            self.steps.resize(length, Step::default());
        }
        self.steps.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The bytes in each group of `scale` steps in `from..to`. The last group ends at `to`.
    pub(super) fn bytes(&self, from: u64, to: u64, scale: u64) -> Vec<f64> {
        let step = |number: u64| self.steps.get(usize::try_from(number.checked_sub(self.first)?).ok()?);
        let bytes = |number: u64| step(number).map_or(0.0, |step| step.bytes);
        let from = to - (to - from) / scale * scale;
        (0..(to - from) / scale)
            .map(|n| (from + n * scale..from + (n + 1) * scale).map(bytes).sum())
            .collect()
    }

    /// The lowest RTT of each half of the samples in each of the steps, microseconds. `None`: no sample.
    pub(super) fn delays(&self, from: u64, to: u64) -> [Vec<Option<f64>>; 2] {
        let step = |number: u64| self.steps.get(usize::try_from(number.checked_sub(self.first)?).ok()?);
        [0, 1].map(|half| (from..to).map(|number| step(number)?.halves_us[half].map(f64::from)).collect())
    }

    /// Of the steps with samples since step `from`, the fraction in which even the fastest packet was queued.
    pub(super) fn busy(&self, from: u64) -> f64 {
        let base_us = self.steps.iter().filter_map(Step::rtt_us).min().unwrap_or(0);
        let at = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.steps.len());
        let rtts: Vec<u32> = self.steps.range(at..).filter_map(Step::rtt_us).collect();
        let is_queued = |rtt_us: &&u32| **rtt_us - base_us > QUEUED_US.max(base_us / 10);
        rtts.iter().filter(is_queued).count() as f64 / rtts.len().max(1) as f64
    }
}
