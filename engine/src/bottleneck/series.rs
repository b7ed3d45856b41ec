// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points of one subflow, gathered into bins of 5 ms as they come, so that a subflow takes the same few kilobytes whatever its
//! rate. A bin keeps the lowest RTT: of delayed acknowledgements and bursts only the least delayed tells of the queue.

use std::collections::VecDeque;

use mpwatch_model::sample::DelaySample;
use mpwatch_model::unit::{Micros, Nanos};

/// Width of a bin.
pub(super) const BIN_NS: u64 = 5_000_000;
/// Bins in the longest window, and some to spare for what comes late.
const KEPT: usize = 800;
/// The lowest RTT is looked for over so many seconds: a new route has a new one.
const FLOOR_SECONDS: usize = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// Lowest RTT of what was sent in this bin: packets that enter a queue at one time wait equally long, however their
    /// acknowledgements come. `None`: nothing.
    rtt_us: Option<u32>,
    /// When what had the lowest RTT was sent, in nanoseconds from the beginning of the bin.
    sent_ns: u32,
    /// When the last point of this bin came, likewise. `None`: none did.
    came_ns: Option<u32>,
    /// Running totals after the last point of this bin or, if it is empty, of an earlier one.
    delivered: u32,
    lost: u32,
    /// A cut of the congestion window began here.
    cut: bool,
}

/// What came of one subflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// Number, from boot on, of the first bin that is kept.
    first: u64,
    bins: VecDeque<Bin>,
    /// Of these, how many have samples of their own.
    measured: usize,
    /// Second, and lowest RTT in it.
    floors: VecDeque<(u64, u32)>,
    cutting: bool,
    begun: Option<u64>,
}

/// A stretch of time, in bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Bins between two known delays that may be filled in: 80 ms.
const LONGEST_GAP: u64 = 16;
/// And for what was delivered: 200 ms.
const LONGEST_PAUSE: u64 = 40;

/// Nanoseconds from the beginning of the bin that holds this time.
fn within(time: Nanos) -> u32 {
    u32::try_from(time.0 % BIN_NS).unwrap_or(0)
}

/// The values at some places on the straight lines between the known ones; both are in order of place. `None` beyond those that are
/// known, and where they are further apart than `most`.
fn between(known: &[(f64, f64)], places: impl Iterator<Item = f64>, most: f64) -> Vec<Option<f64>> {
    let mut next = 0;
    let at = |place: f64| {
        while known.get(next).is_some_and(|(known, _)| *known <= place) {
            next += 1;
        }
        let ((before, from), (after, to)) = (*known.get(next.checked_sub(1)?)?, *known.get(next)?);
        (after - before <= most).then(|| from + (to - from) * (place - before) / (after - before))
    };
    places.map(at).collect()
}

impl Window {
    /// The time up to `at`, so many bins long.
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

impl Series {
    pub(super) fn take(&mut self, points: &[DelaySample]) {
        for point in points {
            self.push(point);
        }
    }

    fn push(&mut self, point: &DelaySample) {
        let number = point.at.0 / BIN_NS;
        let Ok(rtt_us) = u32::try_from(point.rtt.0) else { return };
        self.make_room(number, point);
        let begins = point.cut && !self.cutting;
        if let Some(bin) = self.bin_mut(number) {
            bin.delivered = point.delivered;
            bin.lost = point.lost;
            bin.came_ns = Some(within(point.at));
            bin.cut |= begins;
        }
        self.cutting = point.cut;
        self.note_floor(point.at.0 / 1_000_000_000, rtt_us);
        let sent = point.at.since(Nanos(point.rtt.0.saturating_mul(1_000)));
        if let Some(bin) = self.bin_mut(sent.0 / BIN_NS)
            && bin.rtt_us.is_none_or(|lowest| rtt_us < lowest)
        {
            let is_first = bin.rtt_us.is_none();
            (bin.rtt_us, bin.sent_ns) = (Some(rtt_us), within(sent));
            self.measured += usize::from(is_first);
        }
    }

    fn bin_mut(&mut self, number: u64) -> Option<&mut Bin> {
        self.bins.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Has a bin of this number last, unless it is older than the last one. After a leap of time in either direction nothing that
    /// was before says anything about what comes.
    fn make_room(&mut self, number: u64, point: &DelaySample) {
        let end = self.first + self.bins.len() as u64;
        if self.bins.is_empty() || number >= end + KEPT as u64 || number + (KEPT as u64) < end {
            *self = Self { first: number, begun: Some(number), ..Self::default() };
            self.bins.push_back(Bin { delivered: point.delivered, lost: point.lost, ..Bin::default() });
            return;
        }
        // All at once: a slow subflow has hundreds of empty bins between two points.
        let Bin { delivered, lost, .. } = self.bins.back().copied().unwrap_or_default();
        let new = usize::try_from((number + 1).saturating_sub(end)).unwrap_or(0);
        self.bins.resize(self.bins.len() + new, Bin { delivered, lost, ..Bin::default() });
        let too_many = self.bins.len().saturating_sub(KEPT);
        self.measured -= self.bins.drain(..too_many).filter(|bin| bin.rtt_us.is_some()).count();
        self.first += too_many as u64;
    }

    fn note_floor(&mut self, second: u64, rtt_us: u32) {
        match self.floors.back_mut() {
            Some((latest, lowest)) if *latest == second => *lowest = rtt_us.min(*lowest),
            _ => self.floors.push_back((second, rtt_us)),
        }
        if self.floors.len() > FLOOR_SECONDS {
            self.floors.pop_front();
        }
    }

    /// Lowest RTT of the last seconds: what it would be without a queue, if the queue was ever empty meanwhile.
    pub(super) fn floor(&self) -> Option<Micros> {
        self.floors.iter().map(|(_, lowest)| Micros((*lowest).into())).min()
    }

    /// First bin since time last leapt.
    pub(super) fn begun(&self) -> Option<u64> {
        self.begun
    }

    /// Bin of the latest point.
    pub(super) fn latest(&self) -> Option<u64> {
        (self.first + self.bins.len() as u64).checked_sub(1).filter(|_| !self.bins.is_empty())
    }

    fn bin(&self, number: u64) -> Option<&Bin> {
        self.bins.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Whether so many bins of a window have samples of their own.
    pub(super) fn has_measured(&self, window: Window, least: f64) -> bool {
        let measured = |(_, bin): &(u64, &Bin)| bin.rtt_us.is_some();
        // Mostly, where they are too few in a window, they are too few in all that is kept.
        self.measured as f64 >= least
            && self.inside(window.from, window.to).filter(measured).count() as f64 >= least
    }

    /// The bins that there are from one number to before another one, with their numbers.
    fn inside(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &Bin)> {
        let place = |number: u64| {
            let place = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
            place.min(self.bins.len())
        };
        let (from, to) = (place(from), place(to));
        let numbers = self.first + from as u64..;
        numbers.zip(self.bins.range(from..to.max(from)))
    }

    /// Lowest RTT of every `step` bins, in milliseconds.
    pub(super) fn rtts(&self, window: Window, step: u64) -> Vec<Option<f64>> {
        let lowest = |from: u64| self.inside(from, from + step).filter_map(|(_, bin)| bin.rtt_us).min();
        let starts = (window.from..window.to).step_by(usize::try_from(step).unwrap_or(1));
        starts.map(|from| lowest(from).map(|rtt_us| f64::from(rtt_us) / 1e3)).collect()
    }

    /// What was lowest in each bin, by when it was sent, in milliseconds; in empty bins what lies between their neighbours, unless those
    /// are further apart than [`LONGEST_GAP`]. With which of them are not made up.
    pub(super) fn delays(&self, window: Window) -> (Vec<Option<f64>>, Vec<bool>) {
        let known: Vec<(f64, f64)> = self
            .inside(window.from.saturating_sub(LONGEST_GAP), window.to + LONGEST_GAP)
            .filter_map(|(number, bin)| {
                let sent = number as f64 + f64::from(bin.sent_ns) / BIN_NS as f64;
                Some((sent, f64::from(bin.rtt_us?) / 1e3))
            })
            .collect();
        let places = (window.from..window.to).map(|number| number as f64 + 0.5);
        let is_known = |number: u64| self.bin(number).is_some_and(|bin| bin.rtt_us.is_some());
        let delays = between(&known, places, LONGEST_GAP as f64);
        (delays, (window.from..window.to).map(is_known).collect())
    }

    /// Segments delivered in every `step` bins, of which the last one ends so many bins (and parts of them) before the window does.
    /// `None` where it was not sampled.
    pub(super) fn delivered(&self, window: Window, step: u64, before: f64) -> Vec<Option<f64>> {
        let first = self.bin(window.from.max(self.first)).map_or(0, |bin| bin.delivered);
        let known: Vec<(f64, f64)> = self
            .inside(window.from.saturating_sub(LONGEST_PAUSE), window.to + LONGEST_PAUSE + 1)
            .filter_map(|(number, bin)| {
                let came = number as f64 + f64::from(bin.came_ns?) / BIN_NS as f64;
                Some((came, f64::from(bin.delivered.wrapping_sub(first).cast_signed())))
            })
            .collect();
        let whole = window.bins() / step;
        let places = (0..=whole).rev().map(|steps| (window.to - steps * step) as f64 - before);
        let totals = between(&known, places, LONGEST_PAUSE as f64);
        totals.windows(2).map(|total| Some(total[1]? - total[0]?)).collect()
    }

    /// The bins in which segments were marked lost or the congestion window began to be cut.
    pub(super) fn losses(&self, window: Window) -> Vec<u64> {
        let bins = || self.inside(window.from.saturating_sub(1), window.to);
        let is_loss =
            |((_, before), (_, bin)): &((u64, &Bin), (u64, &Bin))| bin.cut || bin.lost != before.lost;
        bins().zip(bins().skip(1)).filter(is_loss).map(|(_, (number, _))| number).collect()
    }
}
