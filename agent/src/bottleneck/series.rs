// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points of one subflow, gathered into bins of 5 ms as they come, so that a subflow takes the same few kilobytes whatever its
//! rate. A bin keeps the lowest RTT: of delayed acknowledgements and bursts only the least delayed tells of the queue.

use std::collections::VecDeque;

use mpwatch_model::sample::Point;
use mpwatch_model::unit::{Micros, Nanos};

/// Width of a bin.
pub(super) const BIN_NS: u64 = 5_000_000;
/// Bins in the longest window, and some to spare for what comes late.
const KEPT: u64 = 800;
/// The lowest RTT is looked for over so many seconds: a new route has a new one.
const FLOOR_SECONDS: usize = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// Lowest RTT of what was sent in this bin: packets that enter a queue at one time wait equally long, however their
    /// acknowledgements come. `None`: nothing.
    rtt_us: Option<u32>,
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
    pub(super) fn take(&mut self, points: &[Point]) {
        for point in points {
            self.push(point);
        }
    }

    fn push(&mut self, point: &Point) {
        let number = point.at.0 / BIN_NS;
        let Ok(rtt_us) = u32::try_from(point.rtt.0) else { return };
        self.make_room(number, point);
        let begins = point.cut && !self.cutting;
        if let Some(bin) = self.bin_mut(number) {
            bin.delivered = point.delivered;
            bin.lost = point.lost;
            bin.cut |= begins;
        }
        self.cutting = point.cut;
        self.note_floor(point.at.0 / 1_000_000_000, rtt_us);
        let sent = point.at.since(Nanos(point.rtt.0.saturating_mul(1_000))).0 / BIN_NS;
        if let Some(bin) = self.bin_mut(sent) {
            bin.rtt_us = Some(bin.rtt_us.map_or(rtt_us, |lowest| lowest.min(rtt_us)));
        }
    }

    fn bin_mut(&mut self, number: u64) -> Option<&mut Bin> {
        self.bins.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Has a bin of this number last, unless it is older than the last one. After a leap of time in either direction nothing that
    /// was before says anything about what comes.
    fn make_room(&mut self, number: u64, point: &Point) {
        let end = self.first + self.bins.len() as u64;
        if self.bins.is_empty() || number >= end + KEPT || number + KEPT < end {
            *self = Self { first: number, begun: Some(number), ..Self::default() };
            self.bins.push_back(Bin { delivered: point.delivered, lost: point.lost, ..Bin::default() });
            return;
        }
        let last = self.bins.back().copied().unwrap_or_default();
        for _ in end..=number {
            self.bins.push_back(Bin { rtt_us: None, cut: false, ..last });
        }
        while self.bins.len() as u64 > KEPT {
            self.bins.pop_front();
            self.first += 1;
        }
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

    /// Lowest RTT of every `step` bins, in milliseconds.
    pub(super) fn rtts(&self, window: Window, step: u64) -> Vec<Option<f64>> {
        let lowest = |from: u64| (from..from + step).filter_map(|number| self.bin(number)?.rtt_us).min();
        let starts = (window.from..window.to).step_by(usize::try_from(step).unwrap_or(1));
        starts.map(|from| lowest(from).map(|rtt_us| f64::from(rtt_us) / 1e3)).collect()
    }

    /// Segments delivered in every `step` bins. `None` where it was not sampled before that.
    pub(super) fn delivered(&self, window: Window, step: u64) -> Vec<Option<f64>> {
        let latest = self.latest().unwrap_or(0);
        let total = |number: u64| self.bin(number.min(latest)).map(|bin| bin.delivered);
        let grown =
            |from: u64| Some(f64::from(total(from + step - 1)?.wrapping_sub(total(from.checked_sub(1)?)?)));
        (window.from..window.to).step_by(usize::try_from(step).unwrap_or(1)).map(grown).collect()
    }

    /// The bins in which segments were marked lost or the congestion window began to be cut.
    pub(super) fn losses(&self, window: Window) -> Vec<u64> {
        let is_loss = |number: &u64| {
            let (Some(bin), Some(before)) =
                (self.bin(*number), number.checked_sub(1).and_then(|n| self.bin(n)))
            else {
                return false;
            };
            bin.cut || bin.lost != before.lost
        };
        (window.from..window.to).filter(is_loss).collect()
    }
}
