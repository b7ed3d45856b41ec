// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledged bytes of a connection and of its subflows in the last seconds.

use std::collections::{BTreeMap, VecDeque};

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Nanos};

/// Rates are means over this time.
const WINDOW: Nanos = Nanos(5_000_000_000);
/// A subflow whose peer has acknowledged nothing for this time may have failed. The kernel reports the failure later.
const RECENT: Nanos = Nanos(1_000_000_000);

struct Sample {
    at: Nanos,
    acked: Bytes,
    subflows: BTreeMap<SubflowId, Bytes>,
}

/// The samples of one connection, the oldest first.
#[derive(Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
}

impl History {
    /// Adds a sample. Returns the bytes of the connection that the peer has acknowledged.
    pub(super) fn add(&mut self, at: Nanos, connection: &Connection) -> Bytes {
        let all = connection.subflows.iter();
        // Kernels before 6.5 have no byte counters per connection.
        let of_subflows = || all.clone().map(|subflow| subflow.bytes_acked).sum();
        let acked = connection.bytes_acked.unwrap_or_else(of_subflows);
        let open = all.clone().filter(|subflow| subflow.closed.is_none());
        let subflows = open.map(|subflow| (subflow.id, subflow.bytes_acked)).collect();
        self.samples.push_back(Sample { at, acked, subflows });
        // Keep one sample from the beginning of the window or from before it.
        while self.samples.get(1).is_some_and(|second| at.since(second.at) >= WINDOW) {
            self.samples.pop_front();
        }
        acked
    }

    /// The time that the samples cover.
    pub(super) fn duration(&self) -> Nanos {
        let ends = self.samples.front().zip(self.samples.back());
        ends.map_or(Nanos(0), |(first, last)| last.at.since(first.at))
    }

    pub(super) fn throughput(&self) -> BitsPerSecond {
        self.rate(|sample| Some(sample.acked))
    }

    /// Mean rate of a subflow since the beginning of the window, or since it joined.
    pub(super) fn goodput(&self, subflow: SubflowId) -> BitsPerSecond {
        self.rate(|sample| sample.subflows.get(&subflow).copied())
    }

    /// Whether the peer acknowledged payload on a subflow in the last second, or since the previous snapshot if that is older.
    pub(super) fn is_progressing(&self, subflow: SubflowId) -> bool {
        let Some(last) = self.samples.back() else { return false };
        let before = self.samples.iter().rev().find(|sample| last.at.since(sample.at) >= RECENT);
        let acked = |sample: &Sample| sample.subflows.get(&subflow).copied();
        before.and_then(acked).zip(acked(last)).is_some_and(|(before, after)| after > before)
    }

    fn rate(&self, read: impl Fn(&Sample) -> Option<Bytes>) -> BitsPerSecond {
        let value = |sample: &Sample| read(sample).map(|bytes| (sample.at, bytes));
        let ends = self.samples.iter().find_map(value).zip(self.samples.iter().rev().find_map(value));
        ends.map_or(BitsPerSecond(0), |((from, before), (to, after))| after.since(before).per(to.since(from)))
    }
}
