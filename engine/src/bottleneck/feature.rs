// SPDX-License-Identifier: MIT OR Apache-2.0
//! From two series to the figures that a verdict rests on. Each is symmetric in the two.

use mpwatch_model::bottleneck::Evidence;

use std::collections::BTreeMap;

use mpwatch_model::id::SubflowId;

use super::series::{BIN_NS, Series, Window};
use super::statistics::{
    aligned, concordance, high_pass, mean, partial_correlations, smoothness, variance, variation,
};

/// Bins of a step in which is counted who waits: 10 ms.
const STEP: u64 = 2;
/// What is slower than 200 ms to each side is a trend; for bursts, than 40 ms.
const TREND: usize = 40;
const BURST_TREND: usize = 8;
/// Rates are over 50 ms; how steady one is over 100 ms, because the count of segments in less is too coarse.
const RATE_STEP: u64 = 10;
const STEADY_STEP: u64 = 20;
/// Fewer steps than this that both have tell nothing: half a second.
const LEAST_STEPS: usize = 100;
/// And fewer rates.
const LEAST_RATES: usize = 12;
/// With fewer segments than this in a step of 50 ms on average their number is mostly chance, and so is what a rate seems to tell.
const LEAST_SEGMENTS: f64 = 5.5;
/// Less than this part of the window is a trickle.
const LEAST_COVERAGE: f64 = 0.35;
/// So is less than this many samples a second.
pub(super) const MIN_SAMPLES_PER_SECOND: f64 = 15.0;
/// What some subflows got together is looked at over so many steps of 100 ms at least.
const LEAST_TOGETHER: usize = 15;
/// A subflow with rates for less than this part of the window explains nothing of the others.
const LEAST_EXPLAINING: f64 = 0.8;
/// Delays that vary by less are the noise of the end hosts, in milliseconds.
const NOISE_MS: f64 = 0.1;
/// Who is held up for longer waits in a queue, in milliseconds: hosts that are busy hold packets up for less.
const QUEUE_MS: f64 = 1.0;
/// What is longer than this part of the base RTT is no noise of the way.
const PART_OF_FLOOR: f64 = 0.1;
/// Part of the time in which who is congested waits.
const CONGESTED: f64 = 0.2;
/// Rates that take from one another divide something, be it only what an application sends.
const DIVIDING: f64 = -0.5;
/// Losses nearer than this are one event.
const TOGETHER: u64 = 10;
/// Losses of each that it takes to compare their times.
const LEAST_LOSSES: usize = 3;
/// Longest difference of base RTTs that is looked across: 100 ms.
const MOST_LAG: isize = 20;

/// One subflow in one window, worked out once for all its pairs.
pub(super) struct View {
    floor_ms: f64,
    slow: Vec<Option<f64>>,
    /// Whether these vary by more than noise.
    moves: bool,
    fast: Vec<Option<f64>>,
    /// How much of `slow` is no noise.
    signal: Option<f64>,
    rates: Vec<Option<f64>>,
    steady: Vec<Option<f64>>,
    losses: Vec<u64>,
    /// Part of the time in which it waits in a queue for certain, and in which it may.
    busy: f64,
    held_up: f64,
    coverage: f64,
    /// Bins with samples of their own.
    measured_a_second: f64,
    window: Window,
}

impl View {
    /// `None`: nothing in this window. `reach`: half of the longest base RTT of the connection, in bins. What leaves a queue at one time
    /// is told of half a base RTT later, if ways there and back are alike.
    fn of(series: &Series, window: Window, reach: f64) -> Option<Self> {
        let floor_ms = series.floor()?.0 as f64 / 1e3;
        let rtts = series.rtts(window, STEP);
        let present: Vec<f64> = rtts.iter().flatten().copied().collect();
        if present.is_empty() {
            return None;
        }
        let part_above = |least_ms: f64| {
            let limit = floor_ms + least_ms.max(PART_OF_FLOOR * floor_ms);
            present.iter().filter(|rtt| **rtt > limit).count() as f64 / present.len() as f64
        };
        let (delays, known) = series.delays(window);
        let slow = high_pass(&delays, TREND);
        let slow_places = slow.iter().flatten().count();
        let measured_bins = known.iter().filter(|known| **known).count();
        let measured = slow.iter().zip(known).filter_map(|(value, known)| value.filter(|_| known));
        let before = reach - half_bins(series)?;
        let rates = series.delivered(window, RATE_STEP, before);
        let counts: Vec<f64> = rates.iter().flatten().copied().collect();
        let is_counted = mean(&counts).is_some_and(|segments| segments >= LEAST_SEGMENTS);
        let counted = |rates: Vec<Option<f64>>| if is_counted { rates } else { Vec::new() };
        Some(Self {
            floor_ms,
            signal: smoothness(&measured.collect::<Vec<_>>()),
            moves: moves(&slow),
            slow,
            fast: high_pass(&delays, BURST_TREND),
            steady: counted(series.delivered(window, STEADY_STEP, before)),
            rates: counted(rates),
            losses: series.losses(window),
            busy: part_above(QUEUE_MS),
            held_up: part_above(NOISE_MS),
            measured_a_second: measured_bins as f64 * 1e9 / window.length().0.max(1) as f64,
            coverage: slow_places as f64 / window.bins().max(1) as f64,
            window,
        })
    }

    /// Enough to be compared; else a trickle, or it stands still.
    fn is_dense(&self) -> bool {
        self.coverage >= LEAST_COVERAGE && self.measured_a_second >= MIN_SAMPLES_PER_SECOND
    }

    /// Whether it waited in a queue or lost something.
    pub(super) fn is_congested(&self) -> bool {
        self.busy >= CONGESTED || self.losses.len() >= LEAST_LOSSES
    }

    /// Whether it did not wait, as far as delays can tell. Between this and congestion there is no telling: a fast link that is full may
    /// hold a packet up for no longer than a busy host does.
    fn is_free(&self) -> bool {
        self.held_up < CONGESTED && self.losses.len() < LEAST_LOSSES
    }

    fn steadiness(&self) -> Option<f64> {
        let rates: Vec<f64> = self.steady.iter().flatten().copied().collect();
        (rates.len() * 2 >= LEAST_RATES).then(|| variation(&rates)).flatten()
    }
}

/// Whether delays vary by more than noise.
fn moves(delays: &[Option<f64>]) -> bool {
    let values: Vec<f64> = delays.iter().flatten().copied().collect();
    variance(&values).is_some_and(|variance| variance.sqrt() > NOISE_MS)
}

/// Whether it has samples enough to be compared; else it is a trickle.
fn is_sampled(series: &Series, window: Window) -> bool {
    series.has_measured(window, MIN_SAMPLES_PER_SECOND * window.length().0 as f64 / 1e9)
}

fn half_bins(series: &Series) -> Option<f64> {
    Some(series.floor()?.0 as f64 * 1e3 / 2.0 / BIN_NS as f64)
}

/// What some subflows got together.
pub(super) struct Together {
    /// Variance of the sum of their rates over the sum of their variances.
    pub(super) sum_variation: f64,
    /// Coefficients of variation: of the sum, and of the rate that moves least.
    pub(super) sum_swing: f64,
    pub(super) least_variation: f64,
    /// In the order of the subflows.
    pub(super) segments_a_second: Vec<f64>,
}

/// Places at which all rows have a value.
fn common_steps(rows: &[&[Option<f64>]]) -> Vec<usize> {
    let steps = rows.iter().map(|row| row.len()).min().unwrap_or(0);
    (0..steps).filter(|step| rows.iter().all(|row| row[*step].is_some())).collect()
}

/// All subflows of a connection in one window.
pub(super) struct Scene {
    views: BTreeMap<SubflowId, View>,
    rates: BTreeMap<(SubflowId, SubflowId), f64>,
}

impl Scene {
    pub(super) fn of(series: &BTreeMap<SubflowId, Series>, window: Window) -> Self {
        // Where no two can be compared nothing need be worked out: a trickle costs next to nothing.
        let comparable = series.values().filter(|series| is_sampled(series, window));
        if comparable.take(2).count() < 2 {
            return Self { views: BTreeMap::new(), rates: BTreeMap::new() };
        }
        let reach = series.values().filter_map(half_bins).fold(0.0, f64::max);
        let view = |(id, series): (&SubflowId, &Series)| Some((*id, View::of(series, window, reach)?));
        let views: BTreeMap<SubflowId, View> = series.iter().filter_map(view).collect();
        let explain = |(_, view): &(&SubflowId, &View)| {
            let known = view.rates.iter().flatten().count();
            known > 0 && known as f64 >= LEAST_EXPLAINING * view.rates.len() as f64
        };
        let explaining: Vec<(&SubflowId, &View)> = views.iter().filter(explain).collect();
        let rates = among(&explaining);
        Self { views, rates }
    }

    pub(super) fn view(&self, id: SubflowId) -> Option<&View> {
        self.views.get(&id)
    }

    /// Whether a subflow has all the rate that it wants: it does not wait, and does not divide anything with another one.
    pub(super) fn is_free(&self, id: SubflowId) -> bool {
        let divides = |((one, other), rate): (&(SubflowId, SubflowId), &f64)| {
            (*one == id || *other == id) && *rate <= DIVIDING
        };
        self.view(id).is_some_and(View::is_free) && !self.rates.iter().any(divides)
    }

    /// What these subflows got together, over the steps in which all have a rate. `None`: of one of them too little is known.
    pub(super) fn together(&self, ids: &[SubflowId]) -> Option<Together> {
        let views: Vec<&View> = ids.iter().map(|id| self.view(*id)).collect::<Option<_>>()?;
        let rows: Vec<&[Option<f64>]> = views.iter().map(|view| view.steady.as_slice()).collect();
        let common = common_steps(&rows);
        if common.len() < LEAST_TOGETHER {
            return None;
        }
        let rates: Vec<Vec<f64>> =
            rows.iter().map(|row| common.iter().filter_map(|step| row[*step]).collect()).collect();
        let sum: Vec<f64> = (0..common.len()).map(|step| rates.iter().map(|row| row[step]).sum()).collect();
        let parts: f64 = rates.iter().filter_map(|row| variance(row)).sum();
        let steps_a_second = 1e9 / (STEADY_STEP * BIN_NS) as f64;
        Some(Together {
            sum_variation: (parts > 0.0).then(|| variance(&sum).map(|sum| sum / parts)).flatten()?,
            sum_swing: variation(&sum)?,
            least_variation: rates.iter().filter_map(|row| variation(row)).reduce(f64::min)?,
            segments_a_second: rates.iter().filter_map(|row| Some(mean(row)? * steps_a_second)).collect(),
        })
    }

    fn rate_correlation(&self, one: SubflowId, other: SubflowId) -> Option<f64> {
        self.rates.get(&(one.min(other), one.max(other))).copied().or_else(|| {
            // One of them pauses too often to be put beside all others.
            let two = [(&one, self.view(one)?), (&other, self.view(other)?)];
            among(&two).into_values().next()
        })
    }

    /// What can be said of two subflows. `None`: too little of either.
    pub(super) fn compare(&self, one: SubflowId, other: SubflowId) -> Option<Evidence> {
        let (a, b) = (self.view(one)?, self.view(other)?);
        if !a.is_dense() || !b.is_dense() {
            return None;
        }
        let moves = a.moves || b.moves;
        let (rate_a, rate_b) = aligned(&a.rates, &b.rates, 0);
        let sum: Vec<f64> = rate_a.iter().zip(&rate_b).map(|(a, b)| a + b).collect();
        let parts = variance(&rate_a).zip(variance(&rate_b)).map(|(a, b)| a + b);
        let steadiness = a.steadiness().zip(b.steadiness());
        Some(Evidence {
            queue_concordance: moves.then(|| alike(a, b, |view| &view.slow)).flatten(),
            burst_concordance: moves.then(|| alike(a, b, |view| &view.fast)).flatten(),
            queue_signal: a.signal.zip(b.signal).map(|(a, b)| a.min(b)),
            rate_correlation: self.rate_correlation(one, other),
            sum_variation: parts
                .filter(|parts| *parts > 0.0)
                .and_then(|parts| variance(&sum).map(|sum| sum / parts)),
            rate_variation: steadiness.map(|(a, b)| a.max(b)),
            least_variation: steadiness.map(|(a, b)| a.min(b)),
            loss_coincidence: coincidence(a, b),
            busy_a: a.busy,
            busy_b: b.busy,
            coverage: a.coverage.min(b.coverage),
            window: a.window.length().micros(),
        })
    }
}

/// Correlations of rates with the others' influence taken out, over the steps in which all have one.
fn among(subflows: &[(&SubflowId, &View)]) -> BTreeMap<(SubflowId, SubflowId), f64> {
    let steps = subflows.iter().map(|(_, view)| view.rates.len()).min().unwrap_or(0);
    let rates: Vec<&[Option<f64>]> =
        subflows.iter().map(|(_, view)| &view.rates[view.rates.len() - steps..]).collect();
    let common = common_steps(&rates);
    let mut found = BTreeMap::new();
    if common.len() < LEAST_RATES.max(2 * subflows.len()) {
        return found;
    }
    let rows: Vec<Vec<f64>> =
        rates.iter().map(|row| common.iter().filter_map(|step| row[*step]).collect()).collect();
    let partial = partial_correlations(&rows);
    for (i, (one, _)) in subflows.iter().enumerate() {
        for (j, (other, _)) in subflows.iter().enumerate().skip(i + 1) {
            found.insert((**one.min(other), **one.max(other)), partial[i][j]);
        }
    }
    found
}

/// How far two rows of delays agree, at the best lag that the difference of base RTTs allows: what goes by the longer way was sent
/// earlier than what it meets in the queue, by no more than that difference.
fn alike(a: &View, b: &View, row: impl Fn(&View) -> &[Option<f64>]) -> Option<f64> {
    let (near, far) = if a.floor_ms <= b.floor_ms { (a, b) } else { (b, a) };
    #[allow(clippy::cast_possible_truncation, reason = "a whole number of steps, at most twenty")]
    let most = (((far.floor_ms - near.floor_ms) / (BIN_NS as f64 / 1e6)).ceil() as isize).min(MOST_LAG);
    let lags = (-most - 1)..=1;
    lags.filter_map(|lag| concordance_of(aligned(row(near), row(far), lag))).reduce(f64::max)
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
