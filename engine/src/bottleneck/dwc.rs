// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dynamic window coupling (DWC): Hassayoun, Iyengar, Ros, "Dynamic Window Coupling for Multipath Congestion Control", ICNP 2011.
//! A loss on one subflow opens a window of about a round trip; subflows that lose or are delayed as well inside of it are taken to be
//! behind the same bottleneck, the others are not. So it only decides at losses. (From the description in the literature, not from its
//! code: what counts as delayed is our choice, and is said below.)

use std::collections::BTreeMap;

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::evaluation::PairEvaluation;
use super::method::{Method, every_pair};

/// Shortest window around a loss: round trips inside a data centre are shorter than the spread of samples.
const SHORTEST: u64 = 20_000_000;
/// Delayed: the queueing delay is above this part of the largest one that the subflow has seen.
const DELAYED: f64 = 0.75;

/// A loss whose window is open.
struct Loss {
    of: SubflowId,
    from: Nanos,
    until: Nanos,
}

#[derive(Default)]
struct Path {
    lowest_us: u64,
    highest_us: u64,
    lost: Option<u32>,
    /// Time, and whether it was congested then. Kept for as long as a window can reach.
    signs: Vec<(Nanos, bool)>,
    rtt_ns: u64,
}

/// The method, for one connection.
#[derive(Default)]
pub(crate) struct Dwc {
    paths: BTreeMap<SubflowId, Path>,
    open: Vec<Loss>,
    found: BTreeMap<(SubflowId, SubflowId), (Verdict, Nanos)>,
}

impl Dwc {
    fn close(&mut self, loss: &Loss) {
        for (&id, path) in &self.paths {
            let inside = |sign: &&(Nanos, bool)| (loss.from..=loss.until).contains(&sign.0);
            let signs: Vec<bool> = path.signs.iter().filter(inside).map(|(_, sign)| *sign).collect();
            if id == loss.of || signs.is_empty() {
                continue;
            }
            let verdict = if signs.contains(&true) { Verdict::Shared } else { Verdict::Disjoint };
            let pair = (id.min(loss.of), id.max(loss.of));
            match self.found.get(&pair) {
                Some((known, _)) if *known == verdict => {}
                _ => _ = self.found.insert(pair, (verdict, loss.until)),
            }
        }
    }
}

impl Method for Dwc {
    fn take(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        let path = self.paths.entry(subflow).or_default();
        for sample in samples {
            let rtt_us = sample.rtt.0;
            path.lowest_us = if path.highest_us == 0 { rtt_us } else { path.lowest_us.min(rtt_us) };
            path.highest_us = path.highest_us.max(rtt_us);
            path.rtt_ns = rtt_us.saturating_mul(1_000);
            let lost = path.lost.is_some_and(|before| before != sample.lost);
            path.lost = Some(sample.lost);
            let (queue, most) = (rtt_us - path.lowest_us, path.highest_us - path.lowest_us);
            path.signs.push((sample.at, lost || (most > 0 && queue as f64 > DELAYED * most as f64)));
            let half = Nanos(path.rtt_ns.max(SHORTEST) / 2);
            if lost {
                self.open.push(Loss { of: subflow, from: sample.at.since(half), until: sample.at + half });
            }
        }
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let open = std::mem::take(&mut self.open);
        let (over, open): (Vec<_>, Vec<_>) = open.into_iter().partition(|loss| loss.until <= at);
        self.open = open;
        for loss in &over {
            self.close(loss);
        }
        let oldest = self.open.iter().map(|loss| loss.from).min().unwrap_or(at).since(Nanos(1_000_000_000));
        for path in self.paths.values_mut() {
            path.signs.retain(|(time, _)| *time >= oldest);
        }
        let ids: Vec<SubflowId> = self.paths.keys().copied().collect();
        every_pair(&ids, |a, b| match self.found.get(&(a, b)) {
            Some((verdict, since)) => (*verdict, None, Some(*since)),
            None => (Verdict::Unknown, None, None),
        })
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.paths.remove(&subflow);
        self.open.retain(|loss| loss.of != subflow);
        self.found.retain(|(a, b), _| *a != subflow && *b != subflow);
    }
}
