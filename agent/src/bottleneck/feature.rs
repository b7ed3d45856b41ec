// SPDX-License-Identifier: MIT OR Apache-2.0
//! From two series to the figures that a verdict rests on. Each is symmetric in the two.

use mpwatch_model::bottleneck::Evidence;

use super::series::{BIN_NS, Series, Window};
use super::statistics::{aligned, concordance, correlation, high_pass, variance, variation};

/// Bins of a step in which delays are compared: 10 ms, and for bursts 5 ms.
const STEP: u64 = 2;
const BURST_STEP: u64 = 1;
/// What is slower than 200 ms to each side is a trend; for bursts, than 40 ms.
const TREND: usize = 20;
const BURST_TREND: usize = 8;
/// Rates are over 50 ms; how steady one is over 100 ms, because the count of segments in less is too coarse.
const RATE_STEP: u64 = 10;
const STEADY_STEP: u64 = 20;
/// Fewer steps than this that both have tell nothing: half a second.
const LEAST_STEPS: usize = 50;
/// And less than this part of the window is a trickle.
const LEAST_COVERAGE: f64 = 0.35;
/// Delays that vary by less are the noise of the end hosts, in milliseconds.
const NOISE_MS: f64 = 0.1;
/// Losses nearer than this are one event.
const TOGETHER: u64 = 10;
/// Losses of each that it takes to compare their times.
const LEAST_LOSSES: usize = 3;

/// One subflow in one window, worked out once for all its pairs.
pub(super) struct View {
    floor_ms: f64,
    slow: Vec<Option<f64>>,
    fast: Vec<Option<f64>>,
    rates: Vec<Option<f64>>,
    steady: Vec<Option<f64>>,
    losses: Vec<u64>,
    busy: f64,
    coverage: f64,
    window: Window,
}

impl View {
    /// `None`: nothing in this window.
    pub(super) fn of(series: &Series, window: Window) -> Option<Self> {
        let floor_ms = series.floor()?.0 as f64 / 1e3;
        let rtts = series.rtts(window, STEP);
        let present: Vec<f64> = rtts.iter().flatten().copied().collect();
        if present.is_empty() {
            return None;
        }
        let queue = (0.1 * floor_ms).max(1.0);
        let busy = present.iter().filter(|rtt| **rtt - floor_ms > queue).count();
        Some(Self {
            floor_ms,
            slow: high_pass(&rtts, TREND),
            fast: high_pass(&series.rtts(window, BURST_STEP), BURST_TREND),
            rates: series.delivered(window, RATE_STEP),
            steady: series.delivered(window, STEADY_STEP),
            losses: series.losses(window),
            busy: busy as f64 / present.len() as f64,
            coverage: present.len() as f64 / rtts.len() as f64,
            window,
        })
    }

    /// Enough to be compared; else a trickle, or it stands still.
    pub(super) fn is_dense(&self) -> bool {
        self.coverage >= LEAST_COVERAGE
    }

    /// Whether it waited in a queue or lost something.
    pub(super) fn is_congested(&self) -> bool {
        self.busy >= 0.2 || self.losses.len() >= LEAST_LOSSES
    }

    /// Whether its delays vary by more than noise.
    fn moves(&self) -> bool {
        let values: Vec<f64> = self.slow.iter().flatten().copied().collect();
        variance(&values).is_some_and(|variance| variance.sqrt() > NOISE_MS)
    }
}

/// What can be said of two subflows over one window. `None`: too little of either.
pub(super) fn compare(a: &View, b: &View) -> Option<Evidence> {
    if !a.is_dense() || !b.is_dense() {
        return None;
    }
    // Seen from senders at different distances the same queue is told of at different times.
    let lag_ms = (a.floor_ms - b.floor_ms).abs();
    let moves = a.moves() || b.moves();
    let alike = |x: &[Option<f64>], y: &[Option<f64>], step: u64| {
        let width_ms = (step * BIN_NS) as f64 / 1e6;
        #[allow(clippy::cast_possible_truncation, reason = "a whole number of steps, at most twenty")]
        let most = ((lag_ms / width_ms).ceil() as isize).min(20);
        let lags = (-most - 1)..=(most + 1);
        lags.filter_map(|lag| concordance_of(aligned(x, y, lag))).reduce(f64::max)
    };
    let (rate_a, rate_b) = aligned(&a.rates, &b.rates, 0);
    let sum: Vec<f64> = rate_a.iter().zip(&rate_b).map(|(a, b)| a + b).collect();
    let parts = variance(&rate_a).zip(variance(&rate_b)).map(|(a, b)| a + b);
    let steadiness = |view: &View| variation(&view.steady.iter().flatten().copied().collect::<Vec<_>>());
    Some(Evidence {
        queue_concordance: moves.then(|| alike(&a.slow, &b.slow, STEP)).flatten(),
        burst_concordance: moves.then(|| alike(&a.fast, &b.fast, BURST_STEP)).flatten(),
        rate_correlation: correlation(&rate_a, &rate_b),
        sum_variation: parts
            .filter(|parts| *parts > 0.0)
            .and_then(|parts| variance(&sum).map(|sum| sum / parts)),
        rate_variation: steadiness(a).zip(steadiness(b)).map(|(a, b)| a.max(b)),
        loss_coincidence: coincidence(a, b),
        busy_a: a.busy,
        busy_b: b.busy,
        coverage: a.coverage.min(b.coverage),
        window: a.window.length().micros(),
    })
}

fn concordance_of((x, y): (Vec<f64>, Vec<f64>)) -> Option<f64> {
    (x.len() >= LEAST_STEPS).then(|| concordance(&x, &y)).flatten()
}

/// Mean over the two of: the part of its losses that has one of the other near it, less what chance would give.
fn coincidence(a: &View, b: &View) -> Option<f64> {
    let (few, window) = (a.losses.len().min(b.losses.len()), a.window.bins() as f64);
    let one_way = |mine: &[u64], others: &[u64]| {
        let has_near = |at: &&u64| others.iter().any(|other| other.abs_diff(**at) <= TOGETHER);
        let found = mine.iter().filter(has_near).count() as f64 / mine.len() as f64;
        let expected = (2 * TOGETHER + 1) as f64 * others.len() as f64 / window;
        found - (1.0 - (-expected).exp())
    };
    (few >= LEAST_LOSSES).then(|| f64::midpoint(one_way(&a.losses, &b.losses), one_way(&b.losses, &a.losses)))
}
