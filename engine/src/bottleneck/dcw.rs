// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delay correlation with wavelet denoising (DCW): Kim, Kim, Shin, Lam, Powers, "A wavelet-based approach to detect shared congestion",
//! SIGCOMM 2004 and IEEE/ACM ToN 2008. One-way delays, sampled at 10 Hz, are denoised by soft thresholds on their wavelet coefficients;
//! two paths share where the normalised cross-correlation exceeds 0.5 at some lag of up to a second. Here half the RTT stands for the
//! one-way delay, and the Daubechies wavelet is the one with four vanishing moments: which one the authors took was not found. It decides
//! from about 10 s on.

use std::collections::{BTreeMap, VecDeque};

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::evaluation::PairEvaluation;
use super::method::{Method, every_pair};
use super::statistics::correlation;
use super::wavelet::denoised;

/// 10 Hz.
const STEP: u64 = 100_000_000;
/// A power of two for the wavelet: 12.8 s; and the least to decide by, 6.4 s.
const LONGEST: usize = 128;
const SHORTEST: usize = 64;
const MOST_LAG: usize = 10;
const SHARED: f64 = 0.5;

/// Mean delay of a step, in microseconds: sum and count.
type Step = (f64, f64);

#[derive(Default)]
struct Delays {
    first: u64,
    steps: VecDeque<Step>,
}

/// The method, for one connection.
#[derive(Default)]
pub(crate) struct Dcw {
    delays: BTreeMap<SubflowId, Delays>,
    found: BTreeMap<(SubflowId, SubflowId), (Verdict, Nanos)>,
}

impl Delays {
    fn take(&mut self, sample: &DelaySample) {
        let step = sample.at.0 / STEP;
        let end = self.first + self.steps.len() as u64;
        if self.steps.is_empty() || step > end + LONGEST as u64 || step + (LONGEST as u64) < self.first {
            *self = Self { first: step, steps: VecDeque::from([(0.0, 0.0)]) };
        }
        while self.first + self.steps.len() as u64 <= step {
            self.steps.push_back((0.0, 0.0));
        }
        while self.steps.len() > 2 * LONGEST {
            self.steps.pop_front();
            self.first += 1;
        }
        let place = step.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some((sum, count)) = place.and_then(|place| self.steps.get_mut(place)) {
            *sum += sample.rtt.0 as f64 / 2.0;
            *count += 1.0;
        }
    }

    /// The delays of the steps from `from` on; a gap repeats what was before it. `None`: not all there, or mostly gaps.
    fn row(&self, from: u64, count: usize) -> Option<Vec<f64>> {
        let start = usize::try_from(from.checked_sub(self.first)?).ok()?;
        let steps: Vec<Step> = self.steps.iter().skip(start).take(count).copied().collect();
        let set = steps.iter().filter(|(_, count)| *count > 0.0);
        if steps.len() < count || set.clone().count() * 2 < count {
            return None;
        }
        let (sum, number) = set.clone().next()?;
        let mut last = sum / number;
        let value = |(sum, count): &Step| {
            last = if *count > 0.0 { sum / count } else { last };
            last
        };
        Some(steps.iter().map(value).collect())
    }
}

fn likeness(a: &[f64], b: &[f64]) -> Option<f64> {
    let one_way = |x: &[f64], y: &[f64]| {
        (0..=MOST_LAG).filter_map(|lag| correlation(&x[lag..], &y[..y.len() - lag])).reduce(f64::max)
    };
    one_way(a, b).into_iter().chain(one_way(b, a)).reduce(f64::max)
}

impl Method for Dcw {
    fn take(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        let delays = self.delays.entry(subflow).or_default();
        for sample in samples {
            delays.take(sample);
        }
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let ids: Vec<SubflowId> = self.delays.keys().copied().collect();
        let now = at.0 / STEP;
        let mut rows = BTreeMap::new();
        for (id, delays) in &self.delays {
            for count in [LONGEST, SHORTEST] {
                if let Some(row) = now.checked_sub(count as u64).and_then(|from| delays.row(from, count)) {
                    rows.insert((*id, count), denoised(&row));
                }
            }
        }
        every_pair(&ids, |a, b| {
            let both = |count: usize| likeness(rows.get(&(a, count))?, rows.get(&(b, count))?);
            let Some(alike) = both(LONGEST).or_else(|| both(SHORTEST)) else {
                // Nothing new: what was found stays.
                let known = self.found.get(&(a, b)).copied().unzip();
                return (known.0.unwrap_or(Verdict::Unknown), None, known.1);
            };
            let verdict = if alike > SHARED { Verdict::Shared } else { Verdict::Disjoint };
            let known = self.found.get(&(a, b)).filter(|(known, _)| *known == verdict);
            let since = known.map_or(at, |(_, since)| *since);
            self.found.insert((a, b), (verdict, since));
            (verdict, None, Some(since))
        })
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.delays.remove(&subflow);
        self.found.retain(|(a, b), _| *a != subflow && *b != subflow);
    }
}
