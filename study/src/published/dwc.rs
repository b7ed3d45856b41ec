// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dynamic window coupling (DWC): Hassayoun, Iyengar, Ros, "Dynamic Window Coupling for Multipath Congestion Control", ICNP 2011.
//! A loss on one subflow opens a window of about one round trip. Subflows with a loss or a high delay in this window share a bottleneck with
//! that subflow, other subflows do not. The method therefore decides only at losses. Implemented from the literature; the threshold of a high
//! delay is mpwatch's choice.

use std::collections::BTreeMap;

use mpwatch_engine::bottleneck::{Method, PairEvaluation};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::decisions::Decisions;
use super::pairs::every_pair;

/// Minimum window around a loss in nanoseconds, because round trips in a data centre are shorter than the sampling interval.
const MIN_WINDOW: u64 = 20_000_000;
/// A queueing delay is high if it exceeds this share of the subflow's highest queueing delay.
const HIGH_DELAY: f64 = 0.75;
/// Time before the oldest open window for which signs of congestion are kept.
const SIGNS_KEPT: Nanos = Nanos(1_000_000_000);

/// The window around a loss.
struct LossWindow {
    subflow: SubflowId,
    from: Nanos,
    until: Nanos,
}

#[derive(Default)]
struct PathSigns {
    lowest_us: u64,
    highest_us: u64,
    lost: Option<u32>,
    /// Times of samples, and whether each was a sign of congestion.
    signs: Vec<(Nanos, bool)>,
}

#[derive(Default)]
pub(super) struct Dwc {
    paths: BTreeMap<SubflowId, PathSigns>,
    open: Vec<LossWindow>,
    decisions: Decisions,
}

impl Dwc {
    /// Decides the pairs that contain the subflow with this loss. Called after the window of the loss has ended.
    fn close(&mut self, loss: &LossWindow) {
        for (&id, path) in &self.paths {
            let is_inside = |sign: &&(Nanos, bool)| (loss.from..=loss.until).contains(&sign.0);
            let signs: Vec<bool> = path.signs.iter().filter(is_inside).map(|(_, sign)| *sign).collect();
            if id == loss.subflow || signs.is_empty() {
                continue;
            }
            let verdict = if signs.contains(&true) { Verdict::Shared } else { Verdict::Disjoint };
            self.decisions.reach((id.min(loss.subflow), id.max(loss.subflow)), verdict, loss.until);
        }
    }
}

impl Method for Dwc {
    fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        let path = self.paths.entry(subflow).or_default();
        for sample in samples {
            let rtt_us = sample.rtt.0;
            path.lowest_us = if path.highest_us == 0 { rtt_us } else { path.lowest_us.min(rtt_us) };
            path.highest_us = path.highest_us.max(rtt_us);
            let is_loss = path.lost.is_some_and(|before| before != sample.lost);
            path.lost = Some(sample.lost);
            let (delay, highest) = (rtt_us - path.lowest_us, path.highest_us - path.lowest_us);
            let is_high = highest > 0 && delay as f64 > HIGH_DELAY * highest as f64;
            path.signs.push((sample.at, is_loss || is_high));
            if is_loss {
                let half = Nanos(rtt_us.saturating_mul(1_000).max(MIN_WINDOW) / 2);
                self.open.push(LossWindow { subflow, from: sample.at.since(half), until: sample.at + half });
            }
        }
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let open = std::mem::take(&mut self.open);
        let (ended, open): (Vec<_>, Vec<_>) = open.into_iter().partition(|loss| loss.until <= at);
        self.open = open;
        for loss in &ended {
            self.close(loss);
        }
        let oldest = self.open.iter().map(|loss| loss.from).min().unwrap_or(at).since(SIGNS_KEPT);
        for path in self.paths.values_mut() {
            path.signs.retain(|(time, _)| *time >= oldest);
        }
        let ids: Vec<SubflowId> = self.paths.keys().copied().collect();
        every_pair(&ids, |a, b| self.decisions.latest((a, b)))
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.paths.remove(&subflow);
        self.open.retain(|loss| loss.subflow != subflow);
        self.decisions.forget(subflow);
    }
}
