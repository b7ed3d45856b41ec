// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared bottleneck detection of RFC 8382 (Hayes, Ferlin, Welzl, Hiorth, 2018): summary statistics of the one-way delay over base
//! intervals of 350 ms (skewness, variability, key frequency, loss), by which congested flows are sorted into groups (section 3.3.1). The
//! RFC measures at the receiver; here half the RTT replaces the one-way delay. Constants and weights follow public implementations that refer to
//! the RFC's sections 2.2 and 4.1 (docs/bottleneck.md).

use std::collections::{BTreeMap, VecDeque};

use mpwatch_engine::bottleneck::{Method, PairEvaluation};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::statistics::mean;
use mpwatch_model::unit::Nanos;

use super::decisions::Decisions;
use super::pairs::every_pair;

/// The base interval T in nanoseconds.
const INTERVAL: u64 = 350_000_000;
/// Number of base intervals in the long window (freq_est, pkt_loss), and in the window of skew_est and var_est.
const N: usize = 50;
const M: usize = 30;
/// The latest F of these M intervals have full weight in skew_est and var_est; the weights of older intervals decrease (section 4.1).
const F: usize = 20;
const C_S: f64 = 0.1;
const C_H: f64 = 0.3;
/// Fraction of lost packets above which a flow is congested and grouped by its losses.
const P_L: f64 = 0.1;
const P_V: f64 = 0.7;
const P_F: f64 = 0.1;
const P_MAD: f64 = 0.1;
const P_S: f64 = 0.15;
const P_D: f64 = 0.1;

/// The statistics of one base interval.
#[derive(Clone, Copy, Default)]
struct BaseInterval {
    count: f64,
    sum: f64,
    /// Number of samples below the mean of the earlier intervals, minus the number of samples above it.
    skew: f64,
    /// Sum of the samples' distances from the mean of the previous interval.
    deviation: f64,
    lost: f64,
    delivered: f64,
}

impl BaseInterval {
    fn mean(&self) -> f64 {
        self.sum / self.count
    }
}

#[derive(Default)]
struct FlowStatistics {
    /// Number of the current interval.
    current: u64,
    base: BaseInterval,
    /// Earlier intervals, the latest last.
    history: VecDeque<BaseInterval>,
    totals: Option<(u32, u32)>,
    congested: bool,
}

/// The values by which flows are grouped.
#[derive(Clone, Copy)]
struct Summary {
    id: SubflowId,
    skew: f64,
    deviation: f64,
    frequency: f64,
    loss: f64,
}

impl FlowStatistics {
    fn add(&mut self, sample: &DelaySample) {
        let interval = sample.at.0 / INTERVAL;
        if interval != self.current {
            if self.base.count > 0.0 {
                self.history.push_back(self.base);
            }
            while self.history.len() > N {
                self.history.pop_front();
            }
            (self.current, self.base) = (interval, BaseInterval::default());
        }
        let delay = sample.rtt.0 as f64 / 2.0;
        let recent = self.recent(M);
        if let Some(mean) = mean_of(recent.iter()) {
            self.base.skew += f64::from(u8::from(delay < mean)) - f64::from(u8::from(delay > mean));
        }
        if let Some(before) = self.history.back() {
            self.base.deviation += (delay - before.mean()).abs();
        }
        self.base.count += 1.0;
        self.base.sum += delay;
        let (lost, delivered) = self.totals.unwrap_or((sample.lost, sample.delivered));
        self.base.lost += f64::from(sample.lost.wrapping_sub(lost));
        self.base.delivered += f64::from(sample.delivered.wrapping_sub(delivered));
        self.totals = Some((sample.lost, sample.delivered));
    }

    fn recent(&self, count: usize) -> Vec<BaseInterval> {
        self.history.iter().rev().take(count).copied().collect()
    }

    /// The values of a flow. `None`: the window is not full yet, or there are no recent samples.
    fn summary(&self, id: SubflowId, at: Nanos) -> Option<Summary> {
        if self.history.len() < M || self.current + 4 < at.0 / INTERVAL {
            return None;
        }
        let (recent, all) = (self.recent(M), self.recent(N));
        let count = weighted(&recent, |base| base.count);
        let deviation = weighted(&recent, |base| base.deviation) / count;
        let lost: f64 = all.iter().map(|base| base.lost).sum();
        let delivered: f64 = all.iter().map(|base| base.delivered).sum();
        Some(Summary {
            id,
            skew: weighted(&recent, |base| base.skew) / count,
            deviation,
            frequency: self.crossings(deviation)? / N as f64,
            loss: if lost + delivered > 0.0 { lost / (lost + delivered) } else { 0.0 },
        })
    }

    /// Number of times that the mean delay of an interval crossed a band around the mean of all intervals. `None`: no intervals.
    fn crossings(&self, deviation: f64) -> Option<f64> {
        let (middle, band) = (mean_of(self.history.iter())?, P_V * deviation);
        let mut side = None;
        let mut crossings = 0.0;
        for mean in self.history.iter().map(BaseInterval::mean).filter(|mean| (mean - middle).abs() > band) {
            let is_above = mean > middle;
            if side.is_some_and(|above: bool| above != is_above) {
                crossings += 1.0;
            }
            side = Some(is_above);
        }
        Some(crossings)
    }
}

/// Weighted sum over M base intervals, the latest first.
fn weighted(recent: &[BaseInterval], of: fn(&BaseInterval) -> f64) -> f64 {
    let weight = |index: usize| if index < F { M - F + 1 } else { M - index } as f64;
    recent.iter().enumerate().map(|(index, base)| weight(index) * of(base)).sum()
}

fn mean_of<'a>(intervals: impl Iterator<Item = &'a BaseInterval>) -> Option<f64> {
    mean(&intervals.map(BaseInterval::mean).collect::<Vec<_>>())
}

/// Sorts flows by a value, and starts a new group where neighbours differ by at least `limit`, a function of the larger value.
fn split(mut flows: Vec<Summary>, of: fn(&Summary) -> f64, limit: impl Fn(f64) -> f64) -> Vec<Vec<Summary>> {
    flows.sort_by(|a, b| of(b).total_cmp(&of(a)));
    let mut groups: Vec<Vec<Summary>> = Vec::new();
    for flow in flows {
        let near = groups
            .last()
            .and_then(|group| group.last())
            .is_some_and(|last| of(last) - of(&flow) < limit(of(last)));
        match groups.last_mut() {
            Some(group) if near => group.push(flow),
            _ => groups.push(vec![flow]),
        }
    }
    groups
}

#[derive(Default)]
pub(super) struct Rfc8382 {
    flows: BTreeMap<SubflowId, FlowStatistics>,
    decisions: Decisions,
}

impl Rfc8382 {
    /// The group of each subflow whose window is full. `None`: the subflow is not congested.
    fn grouped(&mut self, at: Nanos) -> BTreeMap<SubflowId, Option<usize>> {
        let mut groups: BTreeMap<SubflowId, Option<usize>> = BTreeMap::new();
        let mut congested = Vec::new();
        for (id, flow) in &mut self.flows {
            let Some(summary) = flow.summary(*id, at) else { continue };
            let Summary { skew, loss, .. } = summary;
            flow.congested = skew < C_S || (skew < C_H && flow.congested) || loss > P_L;
            groups.insert(*id, None);
            if flow.congested {
                congested.push(summary);
            }
        }
        let by_frequency = split(congested, |flow| flow.frequency, |_| P_F);
        let by_deviation = by_frequency
            .into_iter()
            .flat_map(|group| split(group, |flow| flow.deviation, |most| P_MAD * most));
        let by_skew_or_loss = by_deviation.flat_map(|group| {
            if group.iter().all(|flow| flow.loss > P_L) {
                split(group, |flow| flow.loss, |most| P_D * most)
            } else {
                split(group, |flow| flow.skew, |_| P_S)
            }
        });
        for (number, group) in by_skew_or_loss.enumerate() {
            groups.extend(group.iter().map(|flow| (flow.id, Some(number))));
        }
        groups
    }
}

impl Method for Rfc8382 {
    fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        let flow = self.flows.entry(subflow).or_default();
        for sample in samples {
            flow.add(sample);
        }
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let groups = self.grouped(at);
        let ids: Vec<SubflowId> = self.flows.keys().copied().collect();
        every_pair(&ids, |a, b| {
            let verdict = match (groups.get(&a), groups.get(&b)) {
                (Some(None), Some(None)) => Verdict::NoBottleneck,
                (Some(Some(a)), Some(Some(b))) if a == b => Verdict::Shared,
                (Some(_), Some(_)) => Verdict::Disjoint,
                _ => return (Verdict::Unknown, None, None),
            };
            self.decisions.reach((a, b), verdict, at)
        })
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.flows.remove(&subflow);
        self.decisions.forget(subflow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_intervals_decrease_after_the_latest_twenty() {
        let only = |index: usize| {
            let mut bases = [BaseInterval::default(); M];
            bases[index].count = 1.0;
            weighted(&bases, |base| base.count)
        };
        assert_eq!(
            [only(0), only(F - 1), only(F), only(M - 1)].map(f64::to_bits),
            [11.0, 11.0, 10.0, 1.0].map(f64::to_bits)
        );
    }
}
