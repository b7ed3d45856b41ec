// SPDX-License-Identifier: MIT OR Apache-2.0
//! The truth about a cell: the contents of each queue, and which subflow went through which queue. Two subflows share a bottleneck if they
//! went through the same queue and this queue was congested. No I/O.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use mpwatch_lab::bottleneck::cell::{App, Cell};

/// A time on the boot clock, nanoseconds.
pub type Time = u64;

/// A second in nanoseconds.
pub const SECOND: Time = 1_000_000_000;
/// A queue is congested if it is not empty for at least this share of [`WINDOW`].
const MIN_CONGESTED: f64 = 0.2;
const WINDOW: Time = 3 * SECOND;
/// A cell with bulk transfers is scored only if its queues contain packets for at least this share of the time (mean over the queues).
const MIN_FILLED: f64 = 0.5;
/// A cell with at least this share of late queue samples is not scored.
const MAX_LATE: f64 = 0.2;

/// The queues at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSample {
    /// Time of the sample.
    pub at: Time,
    /// Bytes in each queue.
    pub backlog: Vec<u64>,
    /// Packets that each queue has dropped so far.
    pub drops: Vec<u64>,
}

/// Measurements of the lab during a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// The cell.
    pub cell: Cell,
    /// The client's address on each path.
    pub addresses: Vec<IpAddr>,
    /// Time of the change of the route. `None`: the route did not change.
    pub switched: Option<Time>,
    /// Samples of all queues, every 50 ms.
    pub queues: Vec<QueueSample>,
    /// Share of queue samples that were more than 25 ms late because the machine was too busy to emulate a network.
    pub late: f64,
    /// Share of the machine's CPU time that was not idle.
    pub busy: f64,
    /// Packets that the lab dropped because it was too slow.
    pub overflowed: u64,
}

/// Whether two subflows share a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// Both subflows go through the same congested queue.
    Shared,
    /// The subflows go through different queues, of which at least one is congested.
    Disjoint,
    /// The subflows share a rate limit, which is reached, but no queue.
    Cap,
    /// The subflows' queues are not congested.
    Uncongested,
}

/// Share of a period in which a queue is not empty.
pub fn filled(samples: &[QueueSample], queue: usize, from: Time, to: Time) -> f64 {
    let (mut all, mut filled) = (0_u32, 0_u32);
    for sample in samples.iter().filter(|sample| (from..=to).contains(&sample.at)) {
        all += 1;
        filled += u32::from(sample.backlog.get(queue).is_some_and(|bytes| *bytes > 0));
    }
    f64::from(filled) / f64::from(all.max(1))
}

/// Whether the subflows that cross these two queues share a bottleneck at the time `at`. Uses samples in the window that ends at `at`, but
/// none before `since`.
pub fn truth(samples: &[QueueSample], queues: [usize; 2], since: Time, at: Time) -> Truth {
    let from = since.max(at.saturating_sub(WINDOW));
    let congested = queues.map(|queue| filled(samples, queue, from, at) >= MIN_CONGESTED);
    match (queues[0] == queues[1], congested[0] || congested[1]) {
        (_, false) => Truth::Uncongested,
        (true, true) => Truth::Shared,
        (false, true) => Truth::Disjoint,
    }
}

impl Labels {
    /// The reason why this cell cannot be scored. `None`: the lab emulated the network of the cell correctly.
    pub fn flaw(&self) -> Option<String> {
        if self.late >= MAX_LATE {
            return Some(format!("{:.0} % of the queue samples were late", self.late * 100.0));
        }
        if self.overflowed > 0 {
            return Some(format!("the lab dropped {} packets", self.overflowed));
        }
        let filled = self.mean_filled();
        // A sender without a rate limit fills the queue of its bottleneck. If the queue is empty, the CPUs are the bottleneck.
        (self.cell.app == App::Bulk && filled < MIN_FILLED)
            .then(|| format!("queues were filled for {:.0} % of the time", filled * 100.0))
    }

    /// Mean over the queues of the share of the time in which the queue is not empty. The first second is left out.
    fn mean_filled(&self) -> f64 {
        let (Some(first), Some(last)) = (self.queues.first(), self.queues.last()) else { return 0.0 };
        let queues = first.backlog.len();
        let of = |queue| filled(&self.queues, queue, first.at + SECOND, last.at);
        (0..queues).map(of).sum::<f64>() / queues.max(1) as f64
    }

    fn queue_of(&self, subflow: usize, at: Time) -> usize {
        self.cell.queue_of(subflow, self.switched.is_some_and(|switched| at >= switched))
    }

    /// Whether two subflows share a bottleneck at the time `at`. Uses samples of their queues in the window that ends at `at`, but none
    /// before `since`.
    pub fn truth(&self, a: usize, b: usize, since: Time, at: Time) -> Truth {
        truth(&self.queues, [a, b].map(|subflow| self.queue_of(subflow, at)), since, at)
    }

    /// The onsets of congestion for two subflows: the first time after `established` at which one of their queues is not empty, and, if a
    /// route change makes them share a queue, the first such time after the change.
    pub fn onsets(&self, a: usize, b: usize, established: Time) -> Vec<Time> {
        let first_after = |from: Time| {
            self.queues.iter().filter(|sample| sample.at >= from).find_map(|sample| {
                let waits = |subflow| {
                    sample.backlog.get(self.queue_of(subflow, sample.at)).is_some_and(|bytes| *bytes > 0)
                };
                (waits(a) || waits(b)).then_some(sample.at)
            })
        };
        let changed = self.switched.filter(|_| self.queue_of(a, Time::MAX) == self.queue_of(b, Time::MAX));
        [first_after(established), changed.and_then(first_after)].into_iter().flatten().collect()
    }

    /// The end of the period that begins at an onset: a later change of the route or, if there is none, the end of the cell.
    pub fn end(&self, onset: Time) -> Time {
        let last = self.queues.last().map_or(0, |sample| sample.at);
        self.switched.filter(|switched| *switched > onset).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_lab::bottleneck::cell::{Layout, Set};

    /// Ten samples per second. Queue 0 is not empty from 0.5 s on, queue 1 from 1.5 s on.
    fn labels(layout: Layout, switched: Option<Time>) -> Labels {
        let sample = |tenth: u64| QueueSample {
            at: tenth * SECOND / 10,
            backlog: (0..2).map(|queue| u64::from(tenth >= queue * 10 + 5) * 1500).collect(),
            drops: vec![0; 2],
        };
        Labels {
            cell: Cell::new(Set::Evaluation, layout, 20),
            addresses: Vec::new(),
            switched,
            queues: (0..80).map(sample).collect(),
            late: 0.0,
            busy: 0.5,
            overflowed: 0,
        }
    }

    #[test]
    fn subflows_share_a_bottleneck_if_their_common_queue_is_not_empty() {
        let shared = labels(Layout::Shared, None);
        assert_eq!(shared.truth(0, 1, 0, SECOND / 4), Truth::Uncongested);
        assert_eq!(shared.truth(0, 1, 0, 2 * SECOND), Truth::Shared);
        assert_eq!(labels(Layout::Disjoint, None).truth(0, 1, 0, 2 * SECOND), Truth::Disjoint);
        assert_eq!(shared.onsets(0, 1, 0), [SECOND / 2]);
        assert_eq!(shared.onsets(0, 1, SECOND), [SECOND]);
    }

    #[test]
    fn a_bulk_transfer_that_fills_no_queue_is_a_flaw() {
        let mut labels = labels(Layout::Disjoint, None);
        assert_eq!(labels.flaw(), None);
        for sample in &mut labels.queues {
            sample.backlog = vec![0; 2];
        }
        assert!(labels.flaw().unwrap().contains("0 %"));
        labels.cell.app = App::Limited;
        assert_eq!(labels.flaw(), None);
        labels.late = 0.5;
        assert!(labels.flaw().unwrap().contains("late"));
    }

    #[test]
    fn the_truth_changes_with_the_route() {
        let labels = labels(Layout::Switching, Some(4 * SECOND));
        let onsets = labels.onsets(0, 1, 0);
        assert_eq!(onsets, [SECOND / 2, 4 * SECOND]);
        assert_eq!(labels.end(onsets[0]), 4 * SECOND);
        assert_eq!(labels.truth(0, 1, onsets[0], 3 * SECOND), Truth::Disjoint);
        assert_eq!(labels.truth(0, 1, onsets[1], 6 * SECOND), Truth::Shared);
    }
}
