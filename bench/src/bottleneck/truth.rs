// SPDX-License-Identifier: MIT OR Apache-2.0
//! What really happened: what each queue held, and which subflow went through which queue. Two subflows share a bottleneck when they
//! went through one queue and that queue was not empty. Pure.

use serde::{Deserialize, Serialize};

use super::cell::{App, Cell};

/// Nanoseconds of the boot clock.
pub type Time = u64;

/// A second of it.
pub const SECOND: Time = 1_000_000_000;
/// A queue is a bottleneck while it is not empty for this part of the time.
const CONGESTED: f64 = 0.2;
/// Of bulk transfers, queues hold something for more than this part of the time.
const FILLED: f64 = 0.5;
/// Looked at over so long.
const WINDOW: Time = 3 * SECOND;

/// The queues at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSample {
    /// When.
    pub at: Time,
    /// Bytes in each queue.
    pub backlog: Vec<u64>,
    /// Packets that each has dropped so far.
    pub drops: Vec<u64>,
}

/// The truth about a cell, as its queues told it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// Which cell.
    pub cell: Cell,
    /// The client's address of each subflow.
    pub addresses: Vec<std::net::IpAddr>,
    /// When the route changed.
    pub switched: Option<Time>,
    /// All queues, every 50 ms.
    pub queues: Vec<QueueSample>,
    /// Part of the samples of queues that came more than 25 ms late: the machine was too busy to emulate a network.
    pub late: f64,
    /// Part of the machine's CPU time that was not idle.
    pub busy: f64,
    /// Packets that the lab itself lost, being too slow.
    pub overflowed: u64,
}

/// What two subflows have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// One queue that was not empty.
    Shared,
    /// Two queues, of which at least one was not empty.
    Disjoint,
    /// Nothing waited.
    Uncongested,
}

impl Labels {
    /// Why nothing can be said of the verdicts on this cell: the lab was not what it claims to be. `None`: it was.
    pub fn flaw(&self) -> Option<String> {
        if self.late >= 0.2 {
            return Some(format!("{:.0} % of the looks at queues came late", self.late * 100.0));
        }
        if self.overflowed > 0 {
            return Some(format!("the lab lost {} packets", self.overflowed));
        }
        let held = self.held();
        // Whoever sends as fast as possible fills the queue of the bottleneck. If it is empty, the bottleneck is elsewhere: the CPUs.
        (self.cell.app == App::Bulk && held < FILLED)
            .then(|| format!("queues held something for {:.0} % of the time", held * 100.0))
    }

    /// Part of the time, after the first second, in which queues held something, on average.
    fn held(&self) -> f64 {
        let (Some(first), Some(last)) = (self.queues.first(), self.queues.last()) else { return 0.0 };
        let queues = first.backlog.len();
        let of = |queue| self.busy(queue, first.at + SECOND, last.at);
        (0..queues).map(of).sum::<f64>() / queues.max(1) as f64
    }

    fn queue_of(&self, subflow: usize, at: Time) -> usize {
        self.cell.queue_of(subflow, self.switched.is_some_and(|switched| at >= switched))
    }

    fn busy(&self, queue: usize, from: Time, to: Time) -> f64 {
        let inside = self.queues.iter().filter(|sample| (from..=to).contains(&sample.at));
        let (mut all, mut busy) = (0_u32, 0_u32);
        for sample in inside {
            all += 1;
            busy += u32::from(sample.backlog.get(queue).is_some_and(|bytes| *bytes > 0));
        }
        f64::from(busy) / f64::from(all.max(1))
    }

    /// What two subflows have had in common up to a time, from `since` on at the earliest.
    pub fn truth(&self, a: usize, b: usize, since: Time, at: Time) -> Truth {
        let from = since.max(at.saturating_sub(WINDOW));
        let queues = [a, b].map(|subflow| self.queue_of(subflow, at));
        let congested = queues.map(|queue| self.busy(queue, from, at) >= CONGESTED);
        match (queues[0] == queues[1], congested[0] || congested[1]) {
            (_, false) => Truth::Uncongested,
            (true, true) => Truth::Shared,
            (false, true) => Truth::Disjoint,
        }
    }

    /// When a verdict on two subflows could first be asked for: both are there from `both` on, and one of their queues is not empty.
    /// Once more after the route has changed.
    pub fn onsets(&self, a: usize, b: usize, both: Time) -> Vec<Time> {
        let first_after = |from: Time| {
            self.queues.iter().filter(|sample| sample.at >= from).find_map(|sample| {
                let waits = |subflow| {
                    sample.backlog.get(self.queue_of(subflow, sample.at)).is_some_and(|bytes| *bytes > 0)
                };
                (waits(a) || waits(b)).then_some(sample.at)
            })
        };
        let changed = self.switched.filter(|_| self.queue_of(a, Time::MAX) == self.queue_of(b, Time::MAX));
        [first_after(both), changed.and_then(first_after)].into_iter().flatten().collect()
    }

    /// Until when a verdict after this onset can be asked for: the next change of routes, or the end.
    pub fn end(&self, onset: Time) -> Time {
        let last = self.queues.last().map_or(0, |sample| sample.at);
        self.switched.filter(|switched| *switched > onset).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Layout, Set};
    use super::*;

    /// Ten samples a second; a queue holds something from its number of seconds on.
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
    fn sharing_takes_one_queue_that_is_not_empty() {
        let shared = labels(Layout::Shared, None);
        assert_eq!(shared.truth(0, 1, 0, SECOND / 4), Truth::Uncongested);
        assert_eq!(shared.truth(0, 1, 0, 2 * SECOND), Truth::Shared);
        assert_eq!(labels(Layout::Disjoint, None).truth(0, 1, 0, 2 * SECOND), Truth::Disjoint);
        assert_eq!(shared.onsets(0, 1, 0), [SECOND / 2]);
        assert_eq!(shared.onsets(0, 1, SECOND), [SECOND]);
    }

    #[test]
    fn a_bulk_transfer_that_fills_no_queue_has_its_bottleneck_elsewhere() {
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
    fn after_a_change_of_routes_the_truth_is_another() {
        let labels = labels(Layout::Switching, Some(4 * SECOND));
        let onsets = labels.onsets(0, 1, 0);
        assert_eq!(onsets, [SECOND / 2, 4 * SECOND]);
        assert_eq!(labels.end(onsets[0]), 4 * SECOND);
        assert_eq!(labels.truth(0, 1, onsets[0], 3 * SECOND), Truth::Disjoint);
        assert_eq!(labels.truth(0, 1, onsets[1], 6 * SECOND), Truth::Shared);
    }
}
