// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of one subflow in bins of 5 ms, which bound memory. A bin keeps only its lowest RTT: delayed ACKs and bursts raise other RTTs.

use std::collections::VecDeque;

use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::{Micros, Nanos};

/// Width of a bin.
pub(super) const BIN_NS: u64 = 5_000_000;
/// Number of bins kept: the longest window, and a reserve for late samples.
const MAX_BINS: usize = 800;
/// The base RTT is the minimum over the last 10 seconds with samples, so it follows route changes.
const BASE_RTT_SECONDS: usize = 10;
/// Maximum gap between known delays that is interpolated, in bins: 80 ms.
const MAX_DELAY_GAP: u64 = 16;
/// Maximum gap between known delivery counts that is interpolated, in bins: 200 ms.
const MAX_DELIVERY_GAP: u64 = 40;

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// Lowest RTT of the segments sent in this bin: segments that enter a queue together wait equally long. `None`: no sample.
    rtt_us: Option<u32>,
    /// When the segment with the lowest RTT was sent, from the start of the bin.
    sent_ns: u32,
    /// When the last acknowledgement of this bin arrived, from the start of the bin. `None`: no acknowledgement arrived.
    acked_ns: Option<u32>,
    /// Running totals at the latest sample before the end of this bin.
    delivered: u32,
    lost: u32,
    /// A reduction of the congestion window began in this bin.
    cut: bool,
}

/// The samples of one subflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// Number of the first bin, counted from boot.
    first: u64,
    bins: VecDeque<Bin>,
    /// Number of bins with an RTT.
    sampled: usize,
    /// Each second with samples, and its lowest RTT in microseconds.
    lowest_rtts: VecDeque<(u64, u32)>,
    /// Whether the congestion window was being reduced at the latest sample.
    is_cut: bool,
    begin: Option<u64>,
}

/// A span of time, in bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Window {
    /// The last `bins` bins before `at`.
    pub(super) fn before(at: Nanos, bins: u64) -> Self {
        let to = at.0 / BIN_NS;
        Self { from: to.saturating_sub(bins), to }
    }

    pub(super) fn bins(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    pub(super) fn length(self) -> Nanos {
        Nanos(self.bins() * BIN_NS)
    }
}

/// Time since the start of the bin that contains `time`, in nanoseconds.
fn offset_in_bin(time: Nanos) -> u32 {
    u32::try_from(time.0 % BIN_NS).unwrap_or(0)
}

/// Linear interpolation of sorted (position, value) pairs. `None` outside of the pairs, and between pairs more than `max_gap` apart.
fn interpolate(known: &[(f64, f64)], positions: impl Iterator<Item = f64>, max_gap: f64) -> Vec<Option<f64>> {
    let mut next = 0;
    let at = |position: f64| {
        while known.get(next).is_some_and(|(known, _)| *known <= position) {
            next += 1;
        }
        let ((before, from), (after, to)) = (*known.get(next.checked_sub(1)?)?, *known.get(next)?);
        (after - before <= max_gap).then(|| from + (to - from) * (position - before) / (after - before))
    };
    positions.map(at).collect()
}

impl Series {
    /// Adds samples, in order of time.
    pub(super) fn add(&mut self, samples: &[DelaySample]) {
        for sample in samples {
            self.push(sample);
        }
    }

    fn push(&mut self, sample: &DelaySample) {
        let number = sample.at.0 / BIN_NS;
        let Ok(rtt_us) = u32::try_from(sample.rtt.0) else { return };
        self.make_room(number, sample);
        let cut_begins = sample.cut && !self.is_cut;
        if let Some(bin) = self.bin_mut(number) {
            bin.delivered = sample.delivered;
            bin.lost = sample.lost;
            bin.acked_ns = Some(offset_in_bin(sample.at));
            bin.cut |= cut_begins;
        }
        self.is_cut = sample.cut;
        self.note_lowest(sample.at.0 / 1_000_000_000, rtt_us);
        let sent = sample.at.since(Nanos(sample.rtt.0.saturating_mul(1_000)));
        if let Some(bin) = self.bin_mut(sent.0 / BIN_NS)
            && bin.rtt_us.is_none_or(|lowest| rtt_us < lowest)
        {
            let is_first = bin.rtt_us.is_none();
            (bin.rtt_us, bin.sent_ns) = (Some(rtt_us), offset_in_bin(sent));
            self.sampled += usize::from(is_first);
        }
    }

    fn bin_mut(&mut self, number: u64) -> Option<&mut Bin> {
        self.bins.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Appends bins up to this number. If it is 4 s after all bins (a gap, or a jump of the clock) or 4 s before the last, discards all bins.
    fn make_room(&mut self, number: u64, sample: &DelaySample) {
        let end = self.first + self.bins.len() as u64;
        if self.bins.is_empty() || number >= end + MAX_BINS as u64 || number + (MAX_BINS as u64) < end {
            *self = Self { first: number, begin: Some(number), ..Self::default() };
            self.bins.push_back(Bin { delivered: sample.delivered, lost: sample.lost, ..Bin::default() });
            return;
        }
        // All bins in one call, because a slow subflow has hundreds of empty bins between two samples.
        let Bin { delivered, lost, .. } = self.bins.back().copied().unwrap_or_default();
        let new = usize::try_from((number + 1).saturating_sub(end)).unwrap_or(0);
        self.bins.resize(self.bins.len() + new, Bin { delivered, lost, ..Bin::default() });
        let excess = self.bins.len().saturating_sub(MAX_BINS);
        self.sampled -= self.bins.drain(..excess).filter(|bin| bin.rtt_us.is_some()).count();
        self.first += excess as u64;
    }

    fn note_lowest(&mut self, second: u64, rtt_us: u32) {
        match self.lowest_rtts.back_mut() {
            Some((latest, lowest)) if *latest == second => *lowest = rtt_us.min(*lowest),
            _ => self.lowest_rtts.push_back((second, rtt_us)),
        }
        if self.lowest_rtts.len() > BASE_RTT_SECONDS {
            self.lowest_rtts.pop_front();
        }
    }

    /// Lowest RTT of the last seconds: the RTT without queueing delay, provided that the queue was empty at some time.
    pub(super) fn base_rtt(&self) -> Option<Micros> {
        self.lowest_rtts.iter().map(|(_, lowest)| Micros((*lowest).into())).min()
    }

    /// Number of the first bin since the last gap of 4 s or jump of the clock.
    pub(super) fn begin(&self) -> Option<u64> {
        self.begin
    }

    /// Number of the bin of the latest sample.
    pub(super) fn latest(&self) -> Option<u64> {
        (self.first + self.bins.len() as u64).checked_sub(1).filter(|_| !self.bins.is_empty())
    }

    fn bin(&self, number: u64) -> Option<&Bin> {
        self.bins.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Whether at least this many bins of a window have an RTT.
    pub(super) fn is_sampled(&self, window: Window, min_bins: f64) -> bool {
        let is_sampled = |(_, bin): &(u64, &Bin)| bin.rtt_us.is_some();
        // The first condition is cheap and usually decides for subflows with few samples.
        self.sampled as f64 >= min_bins
            && self.bins_in(window.from, window.to).filter(is_sampled).count() as f64 >= min_bins
    }

    /// The existing bins with numbers in `from..to`, each with its number.
    fn bins_in(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &Bin)> {
        let index = |number: u64| {
            let index = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
            index.min(self.bins.len())
        };
        let (from, to) = (index(from), index(to));
        let numbers = self.first + from as u64..;
        numbers.zip(self.bins.range(from..to.max(from)))
    }

    /// Lowest RTT of every `step` bins, in milliseconds.
    pub(super) fn rtts(&self, window: Window, step: u64) -> Vec<Option<f64>> {
        let lowest = |from: u64| self.bins_in(from, from + step).filter_map(|(_, bin)| bin.rtt_us).min();
        let starts = (window.from..window.to).step_by(usize::try_from(step).unwrap_or(1));
        starts.map(|from| lowest(from).map(|rtt_us| f64::from(rtt_us) / 1e3)).collect()
    }

    /// The lowest RTT of every bin in milliseconds, interpolated to the middle of the bin; and whether each bin has an RTT of its own.
    pub(super) fn delays(&self, window: Window) -> (Vec<Option<f64>>, Vec<bool>) {
        let known: Vec<(f64, f64)> = self
            .bins_in(window.from.saturating_sub(MAX_DELAY_GAP), window.to + MAX_DELAY_GAP)
            .filter_map(|(number, bin)| {
                let sent = number as f64 + f64::from(bin.sent_ns) / BIN_NS as f64;
                Some((sent, f64::from(bin.rtt_us?) / 1e3))
            })
            .collect();
        let middles = (window.from..window.to).map(|number| number as f64 + 0.5);
        let is_known = |number: u64| self.bin(number).is_some_and(|bin| bin.rtt_us.is_some());
        let delays = interpolate(&known, middles, MAX_DELAY_GAP as f64);
        (delays, (window.from..window.to).map(is_known).collect())
    }

    /// Segments delivered in every `step` bins. The last step ends `shift` bins before the window's end. `None` for steps without samples.
    pub(super) fn delivered(&self, window: Window, step: u64, shift: f64) -> Vec<Option<f64>> {
        let first = self.bin(window.from.max(self.first)).map_or(0, |bin| bin.delivered);
        let known: Vec<(f64, f64)> = self
            .bins_in(window.from.saturating_sub(MAX_DELIVERY_GAP), window.to + MAX_DELIVERY_GAP + 1)
            .filter_map(|(number, bin)| {
                let acked = number as f64 + f64::from(bin.acked_ns?) / BIN_NS as f64;
                Some((acked, f64::from(bin.delivered.wrapping_sub(first).cast_signed())))
            })
            .collect();
        let steps = window.bins() / step;
        let ends = (0..=steps).rev().map(|steps| (window.to - steps * step) as f64 - shift);
        let totals = interpolate(&known, ends, MAX_DELIVERY_GAP as f64);
        totals.windows(2).map(|total| Some(total[1]? - total[0]?)).collect()
    }

    /// Numbers of the bins in which segments were marked lost or a reduction of the congestion window began.
    pub(super) fn losses(&self, window: Window) -> Vec<u64> {
        let bins = || self.bins_in(window.from.saturating_sub(1), window.to);
        let is_loss =
            |((_, before), (_, bin)): &((u64, &Bin), (u64, &Bin))| bin.cut || bin.lost != before.lost;
        bins().zip(bins().skip(1)).filter(is_loss).map(|(_, (number, _))| number).collect()
    }
}
