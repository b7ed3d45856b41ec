// SPDX-License-Identifier: MIT OR Apache-2.0
//! The features of a connection's subflows in one window, and the evidence on a pair of subflows. The order of the pair does not matter.

use std::collections::BTreeMap;

use mpwatch_model::flow::bottleneck::Evidence;
use mpwatch_model::id::SubflowId;
use mpwatch_model::statistics::{mean, variance};

use super::evaluation::{SubflowPair, pair_of};
use super::series::{BIN_NS, Series, Window};
use super::statistics::{aligned, concordance, high_pass, partial_correlations, smoothness, variation};

/// Length of the steps in which queueing is counted, in bins: 10 ms.
const QUEUE_STEP: u64 = 2;
/// Half width of the high-pass filters, in bins: 200 ms for delays, 40 ms for bursts.
const TREND: usize = 40;
const BURST_TREND: usize = 8;
/// Steps of rates (50 ms) and of their variation (100 ms), in bins. For the variation, segment counts of shorter steps are too coarse.
const RATE_STEP: u64 = 10;
const VARIATION_STEP: u64 = 20;
/// Minimum number of bins (500 ms) in which both subflows have a delay.
const MIN_COMMON_BINS: usize = 100;
/// Minimum number of steps of 50 ms in which all compared subflows have a rate.
const MIN_RATES: usize = 12;
/// Minimum mean number of segments per step of 50 ms: with fewer segments, the rate is mostly noise.
const MIN_SEGMENTS: f64 = 5.5;
/// A subflow is compared only if it has delays in this fraction of the window, and this many samples per second.
const MIN_COVERAGE: f64 = 0.35;
pub(super) const MIN_SAMPLES_PER_SECOND: f64 = 15.0;
/// Partial correlations include a subflow only if it has rates in this fraction of the window.
const MIN_RATE_COVERAGE: f64 = 0.8;
/// Queueing delays up to this, and standard deviations of delays up to this, in milliseconds, are noise of the end hosts.
const NOISE_MS: f64 = 0.1;
/// Queueing delay in milliseconds above which a packet was certainly queued: busy hosts delay packets by less.
const QUEUE_MS: f64 = 1.0;
/// Queueing delays up to this fraction of the base RTT count as noise of the path.
const PART_OF_BASE_RTT: f64 = 0.1;
/// A subflow is congested if it queues for at least this fraction of the time.
const CONGESTED: f64 = 0.2;
/// Subflows whose rates have at most this correlation compete, possibly only for the data of the application.
const COMPETING: f64 = -0.5;
/// Losses at most this many bins (50 ms) apart coincide.
const LOSS_DISTANCE: u64 = 10;
/// Minimum number of losses per subflow to compare the times of losses.
const MIN_LOSSES: usize = 3;
/// Maximum difference of base RTTs that is compensated, in bins: 100 ms.
const MAX_LAG: isize = 20;

/// The features of one subflow, computed once for all its pairs.
pub(super) struct SubflowFeatures {
    base_rtt_ms: f64,
    /// Delays in milliseconds: `delays` without trends slower than 200 ms, `bursts` without trends slower than 40 ms.
    delays: Vec<Option<f64>>,
    bursts: Vec<Option<f64>>,
    /// Whether the delays vary by more than noise.
    varies: bool,
    /// Fraction of the variation of the delays that is not noise. `None`: there are too few samples, or they do not vary.
    signal: Option<f64>,
    rates: Vec<Option<f64>>,
    /// Segments per step of 100 ms; `rates` has segments per step of 50 ms. Both are empty if there are too few segments.
    coarse_rates: Vec<Option<f64>>,
    losses: Vec<u64>,
    /// Fractions of the time in which a packet was certainly queued (`busy`), and possibly queued (`maybe_busy`).
    busy: f64,
    maybe_busy: f64,
    coverage: f64,
    samples_per_second: f64,
    window: Window,
}

impl SubflowFeatures {
    /// `None`: no samples in this window. `max_half_rtt`: half of the longest base RTT of the connection, in bins. An acknowledgement
    /// arrives half an RTT after its segment left the queue; rates are shifted by `max_half_rtt` minus half of the subflow's base RTT to align them.
    fn from_series(series: &Series, window: Window, max_half_rtt: f64) -> Option<Self> {
        let base_rtt_ms = series.base_rtt()?.0 as f64 / 1e3;
        let rtts = series.rtts(window, QUEUE_STEP);
        let present: Vec<f64> = rtts.iter().flatten().copied().collect();
        if present.is_empty() {
            return None;
        }
        let part_above = |delay_ms: f64| {
            let limit = base_rtt_ms + delay_ms.max(PART_OF_BASE_RTT * base_rtt_ms);
            present.iter().filter(|rtt| **rtt > limit).count() as f64 / present.len() as f64
        };
        let (all_delays, is_sampled) = series.delays(window);
        let delays = high_pass(&all_delays, TREND);
        let covered = delays.iter().flatten().count();
        let sampled_bins = is_sampled.iter().filter(|is_sampled| **is_sampled).count();
        let sampled =
            delays.iter().zip(is_sampled).filter_map(|(delay, is_sampled)| delay.filter(|_| is_sampled));
        let shift = max_half_rtt - half_rtt_bins(series)?;
        let rates = series.delivered(window, RATE_STEP, shift);
        let counts: Vec<f64> = rates.iter().flatten().copied().collect();
        let has_rates = mean(&counts).is_some_and(|segments| segments >= MIN_SEGMENTS);
        let only_if_known = |rates: Vec<Option<f64>>| if has_rates { rates } else { Vec::new() };
        Some(Self {
            base_rtt_ms,
            signal: smoothness(&sampled.collect::<Vec<_>>()),
            varies: varies(&delays),
            delays,
            bursts: high_pass(&all_delays, BURST_TREND),
            coarse_rates: only_if_known(series.delivered(window, VARIATION_STEP, shift)),
            rates: only_if_known(rates),
            losses: series.losses(window),
            busy: part_above(QUEUE_MS),
            maybe_busy: part_above(NOISE_MS),
            samples_per_second: sampled_bins as f64 * 1e9 / window.length().0.max(1) as f64,
            coverage: covered as f64 / window.bins().max(1) as f64,
            window,
        })
    }

    /// Whether there are enough samples to compare the subflow.
    fn is_comparable(&self) -> bool {
        self.coverage >= MIN_COVERAGE && self.samples_per_second >= MIN_SAMPLES_PER_SECOND
    }

    /// Whether the subflow queued or lost segments.
    pub(super) fn is_congested(&self) -> bool {
        self.busy >= CONGESTED || self.losses.len() >= MIN_LOSSES
    }

    /// Whether the subflow neither queued nor lost segments. Delays between noise and queue are inconclusive: busy hosts cause them, too.
    fn is_uncongested(&self) -> bool {
        self.maybe_busy < CONGESTED && self.losses.len() < MIN_LOSSES
    }

    fn rate_variation(&self) -> Option<f64> {
        let rates: Vec<f64> = self.coarse_rates.iter().flatten().copied().collect();
        (rates.len() * 2 >= MIN_RATES).then(|| variation(&rates)).flatten()
    }
}

/// Whether delays vary by more than noise.
fn varies(delays: &[Option<f64>]) -> bool {
    let values: Vec<f64> = delays.iter().flatten().copied().collect();
    variance(&values).is_some_and(|variance| variance.sqrt() > NOISE_MS)
}

/// Half of the base RTT, in bins.
fn half_rtt_bins(series: &Series) -> Option<f64> {
    Some(series.base_rtt()?.0 as f64 * 1e3 / 2.0 / BIN_NS as f64)
}

/// The values of each row at the positions at which all rows have a value. Positions count from the end. `None`: fewer than `min_common`.
fn common_values(rows: &[&[Option<f64>]], min_common: usize) -> Option<Vec<Vec<f64>>> {
    let length = rows.iter().map(|row| row.len()).min()?;
    let rows: Vec<_> = rows.iter().map(|row| &row[row.len() - length..]).collect();
    let common: Vec<usize> =
        (0..length).filter(|index| rows.iter().all(|row| row[*index].is_some())).collect();
    let values = |row: &&[Option<f64>]| common.iter().filter_map(|index| row[*index]).collect();
    (common.len() >= min_common).then(|| rows.iter().map(values).collect())
}

/// The features of all subflows of a connection in one window.
pub(super) struct Features {
    subflows: BTreeMap<SubflowId, SubflowFeatures>,
    rate_correlations: BTreeMap<SubflowPair, f64>,
}

impl Features {
    pub(super) fn from_series(series: &BTreeMap<SubflowId, Series>, window: Window) -> Self {
        // Skip all computations if fewer than two subflows can be compared.
        let min_samples = MIN_SAMPLES_PER_SECOND * window.length().0 as f64 / 1e9;
        let comparable = series.values().filter(|series| series.is_sampled(window, min_samples));
        if comparable.take(2).count() < 2 {
            return Self { subflows: BTreeMap::new(), rate_correlations: BTreeMap::new() };
        }
        let max_half_rtt = series.values().filter_map(half_rtt_bins).fold(0.0, f64::max);
        let features = |(id, series): (&SubflowId, &Series)| {
            Some((*id, SubflowFeatures::from_series(series, window, max_half_rtt)?))
        };
        let subflows: BTreeMap<SubflowId, SubflowFeatures> = series.iter().filter_map(features).collect();
        let has_rates = |(_, subflow): &(&SubflowId, &SubflowFeatures)| {
            let known = subflow.rates.iter().flatten().count();
            known > 0 && known as f64 >= MIN_RATE_COVERAGE * subflow.rates.len() as f64
        };
        let with_rates: Vec<_> = subflows.iter().filter(has_rates).collect();
        let rate_correlations = rate_correlations(&with_rates);
        Self { subflows, rate_correlations }
    }

    pub(super) fn subflow(&self, id: SubflowId) -> Option<&SubflowFeatures> {
        self.subflows.get(&id)
    }

    /// Whether a subflow is not limited by the network: it does not queue, lose segments, or compete with another subflow.
    pub(super) fn is_uncongested(&self, id: SubflowId) -> bool {
        let competes =
            |((a, b), correlation): (&SubflowPair, &f64)| (*a == id || *b == id) && *correlation <= COMPETING;
        self.subflow(id).is_some_and(SubflowFeatures::is_uncongested)
            && !self.rate_correlations.iter().any(competes)
    }

    fn rate_correlation(&self, a: SubflowId, b: SubflowId) -> Option<f64> {
        self.rate_correlations.get(&pair_of(a, b)).copied().or_else(|| {
            // One of the two subflows has too many gaps to be correlated with all other subflows.
            let two = [(&a, self.subflow(a)?), (&b, self.subflow(b)?)];
            rate_correlations(&two).into_values().next()
        })
    }

    /// The evidence on a pair of subflows. `None`: one of them has too few samples.
    pub(super) fn compare(&self, id_a: SubflowId, id_b: SubflowId) -> Option<Evidence> {
        let (a, b) = (self.subflow(id_a)?, self.subflow(id_b)?);
        if !a.is_comparable() || !b.is_comparable() {
            return None;
        }
        let varies = a.varies || b.varies;
        let (rate_a, rate_b) = aligned(&a.rates, &b.rates, 0);
        let sum: Vec<f64> = rate_a.iter().zip(&rate_b).map(|(a, b)| a + b).collect();
        let parts = variance(&rate_a).zip(variance(&rate_b)).map(|(a, b)| a + b);
        let variations = a.rate_variation().zip(b.rate_variation());
        Some(Evidence {
            queue_concordance: varies.then(|| best_concordance(a, b, |subflow| &subflow.delays)).flatten(),
            burst_concordance: varies.then(|| best_concordance(a, b, |subflow| &subflow.bursts)).flatten(),
            queue_signal: a.signal.zip(b.signal).map(|(a, b)| a.min(b)),
            rate_correlation: self.rate_correlation(id_a, id_b),
            sum_variation: parts
                .filter(|parts| *parts > 0.0)
                .and_then(|parts| variance(&sum).map(|sum| sum / parts)),
            rate_variation: variations.map(|(a, b)| a.max(b)),
            least_variation: variations.map(|(a, b)| a.min(b)),
            loss_coincidence: loss_coincidence(a, b),
            busy_a: a.busy,
            busy_b: b.busy,
            coverage: a.coverage.min(b.coverage),
            window: a.window.length().micros(),
            ..Evidence::default()
        })
    }
}

/// Partial correlations of the rates of some subflows, over the steps in which all have a rate. Empty: there are too few steps.
fn rate_correlations(subflows: &[(&SubflowId, &SubflowFeatures)]) -> BTreeMap<SubflowPair, f64> {
    let rates: Vec<_> = subflows.iter().map(|(_, subflow)| &subflow.rates[..]).collect();
    let mut found = BTreeMap::new();
    let Some(rows) = common_values(&rates, MIN_RATES.max(2 * subflows.len())) else { return found };
    let partial = partial_correlations(&rows);
    for (i, (a, _)) in subflows.iter().enumerate() {
        for (j, (b, _)) in subflows.iter().enumerate().skip(i + 1) {
            found.insert(pair_of(**a, **b), partial[i][j]);
        }
    }
    found
}

/// Concordance of two rows at the best lag. Of two packets that were in the queue together, the packet on the longer path was sent earlier,
/// by at most the difference of the base RTTs.
fn best_concordance(
    a: &SubflowFeatures,
    b: &SubflowFeatures,
    row: impl Fn(&SubflowFeatures) -> &[Option<f64>],
) -> Option<f64> {
    let (near, far) = if a.base_rtt_ms <= b.base_rtt_ms { (a, b) } else { (b, a) };
    #[allow(clippy::cast_possible_truncation, reason = "a whole number of bins, at most twenty")]
    let most = (((far.base_rtt_ms - near.base_rtt_ms) / (BIN_NS as f64 / 1e6)).ceil() as isize).min(MAX_LAG);
    let lags = (-most - 1)..=1;
    let at_lag = |lag| {
        let (x, y) = aligned(row(near), row(far), lag);
        (x.len() >= MIN_COMMON_BINS).then(|| concordance(&x, &y)).flatten()
    };
    lags.filter_map(at_lag).reduce(f64::max)
}

/// Fraction of one subflow's losses that coincide with a loss of the other, minus the fraction expected by chance; mean over both subflows.
fn loss_coincidence(a: &SubflowFeatures, b: &SubflowFeatures) -> Option<f64> {
    let (fewest, window) = (a.losses.len().min(b.losses.len()), a.window.bins() as f64);
    let one_way = |own: &[u64], others: &[u64]| {
        let coincides = |at: &&u64| others.iter().any(|other| other.abs_diff(**at) <= LOSS_DISTANCE);
        let found = own.iter().filter(coincides).count() as f64 / own.len() as f64;
        let expected = (2 * LOSS_DISTANCE + 1) as f64 * others.len() as f64 / window;
        found - (1.0 - (-expected).exp())
    };
    (fewest >= MIN_LOSSES)
        .then(|| f64::midpoint(one_way(&a.losses, &b.losses), one_way(&b.losses, &a.losses)))
}
