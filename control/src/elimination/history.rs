// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledged bytes of the subflows of a connection in the last seconds.

use std::collections::{BTreeMap, VecDeque};

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Nanos};

/// Rates are means over this time.
pub(super) const WINDOW: Nanos = Nanos(5_000_000_000);
/// A subflow whose peer has acknowledged nothing for this time may have failed. The kernel reports the failure later.
const RECENT: Nanos = Nanos(1_000_000_000);

struct Sample {
    at: Nanos,
    subflows: BTreeMap<SubflowId, Bytes>,
}

/// The samples of one connection, the oldest first.
#[derive(Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
}

impl History {
    pub(super) fn add(&mut self, at: Nanos, connection: &Connection) {
        let open = connection.subflows.iter().filter(|subflow| subflow.closed.is_none());
        let subflows = open.map(|subflow| (subflow.id, subflow.bytes_acked)).collect();
        self.samples.push_back(Sample { at, subflows });
        // Keep one sample from the beginning of the window or from before it.
        while self.samples.get(1).is_some_and(|second| at.since(second.at) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// The time that the samples cover.
    pub(super) fn duration(&self) -> Nanos {
        let ends = self.samples.front().zip(self.samples.back());
        ends.map_or(Nanos(0), |(first, last)| last.at.since(first.at))
    }

    /// Mean rate of a subflow since the beginning of the window, or since it joined.
    pub(super) fn goodput(&self, subflow: SubflowId) -> BitsPerSecond {
        let value = |sample: &Sample| Some((sample.at, *sample.subflows.get(&subflow)?));
        let ends = self.samples.iter().find_map(value).zip(self.samples.iter().rev().find_map(value));
        ends.map_or(BitsPerSecond(0), |((from, before), (to, after))| after.since(before).per(to.since(from)))
    }

    /// Whether the peer acknowledged payload on a subflow in the last second, or since the previous snapshot if that is older.
    pub(super) fn is_progressing(&self, subflow: SubflowId) -> bool {
        let Some(last) = self.samples.back() else { return false };
        let before = self.samples.iter().rev().find(|sample| last.at.since(sample.at) >= RECENT);
        let acked = |sample: &Sample| sample.subflows.get(&subflow).copied();
        before.and_then(acked).zip(acked(last)).is_some_and(|(before, after)| after > before)
    }
}
