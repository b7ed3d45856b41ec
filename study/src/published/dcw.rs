// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delay correlation with wavelet denoising (DCW): Kim, Kim, Shin, Lam, Powers, "A wavelet-based approach to detect shared congestion",
//! SIGCOMM 2004 and IEEE/ACM ToN 2008. One-way delays, sampled at 10 Hz, are denoised by soft thresholds on their wavelet coefficients.
//! Two paths share a bottleneck if the normalised cross-correlation exceeds 0.5 at some lag of up to a second. Here half the RTT replaces
//! the one-way delay, and the wavelet is Daubechies' with four vanishing moments; the papers do not name a wavelet. A verdict needs samples of 6.4 s.

use std::collections::{BTreeMap, VecDeque};

use mpwatch_engine::bottleneck::{Method, PairEvaluation, correlation};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::decisions::Decisions;
use super::pairs::every_pair;
use super::wavelet::denoised;

/// Sampling interval in nanoseconds: 10 Hz.
const STEP: u64 = 100_000_000;
/// Lengths of the window in steps, powers of two for the wavelet: 12.8 s or, while there are fewer samples, 6.4 s.
const MAX_STEPS: usize = 128;
const MIN_STEPS: usize = 64;
const MAX_LAG: usize = 10;
/// Minimum correlation of paths that share a bottleneck.
const SHARED: f64 = 0.5;

/// Sum (in microseconds) and number of the delays in one step.
type StepDelays = (f64, f64);

/// The delays of a subflow, from step number `first` on.
#[derive(Default)]
struct Delays {
    first: u64,
    steps: VecDeque<StepDelays>,
}

#[derive(Default)]
pub(super) struct Dcw {
    delays: BTreeMap<SubflowId, Delays>,
    decisions: Decisions,
}

impl Delays {
    fn add(&mut self, sample: &DelaySample) {
        let step = sample.at.0 / STEP;
        let end = self.first + self.steps.len() as u64;
        if self.steps.is_empty() || step > end + MAX_STEPS as u64 || step + (MAX_STEPS as u64) < self.first {
            *self = Self { first: step, steps: VecDeque::from([(0.0, 0.0)]) };
        }
        while self.first + self.steps.len() as u64 <= step {
            self.steps.push_back((0.0, 0.0));
        }
        while self.steps.len() > 2 * MAX_STEPS {
            self.steps.pop_front();
            self.first += 1;
        }
        let index = step.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some((sum, count)) = index.and_then(|index| self.steps.get_mut(index)) {
            *sum += sample.rtt.0 as f64 / 2.0;
            *count += 1.0;
        }
    }

    /// The mean delays of `count` steps from step `from` on. Empty steps repeat the last value. `None`: there are too few values.
    fn row(&self, from: u64, count: usize) -> Option<Vec<f64>> {
        let start = usize::try_from(from.checked_sub(self.first)?).ok()?;
        let steps: Vec<StepDelays> = self.steps.iter().skip(start).take(count).copied().collect();
        let filled = steps.iter().filter(|(_, count)| *count > 0.0);
        if steps.len() < count || filled.clone().count() * 2 < count {
            return None;
        }
        let (sum, number) = filled.clone().next()?;
        let mut last = sum / number;
        let value = |(sum, count): &StepDelays| {
            last = if *count > 0.0 { sum / count } else { last };
            last
        };
        Some(steps.iter().map(value).collect())
    }
}

/// The highest correlation of `a` and `b` at any lag in either direction. `None`: no correlation can be computed.
fn cross_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let one_way = |x: &[f64], y: &[f64]| {
        (0..=MAX_LAG).filter_map(|lag| correlation(&x[lag..], &y[..y.len() - lag])).reduce(f64::max)
    };
    one_way(a, b).into_iter().chain(one_way(b, a)).reduce(f64::max)
}

impl Method for Dcw {
    fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        let delays = self.delays.entry(subflow).or_default();
        for sample in samples {
            delays.add(sample);
        }
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let ids: Vec<SubflowId> = self.delays.keys().copied().collect();
        let now = at.0 / STEP;
        let mut rows = BTreeMap::new();
        for (id, delays) in &self.delays {
            for count in [MAX_STEPS, MIN_STEPS] {
                if let Some(row) = now.checked_sub(count as u64).and_then(|from| delays.row(from, count)) {
                    rows.insert((*id, count), denoised(&row));
                }
            }
        }
        every_pair(&ids, |a, b| {
            let over = |count: usize| cross_correlation(rows.get(&(a, count))?, rows.get(&(b, count))?);
            match over(MAX_STEPS).or_else(|| over(MIN_STEPS)) {
                Some(highest) => {
                    let verdict = if highest > SHARED { Verdict::Shared } else { Verdict::Disjoint };
                    self.decisions.reach((a, b), verdict, at)
                }
                None => self.decisions.latest((a, b)),
            }
        })
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.delays.remove(&subflow);
        self.decisions.forget(subflow);
    }
}
