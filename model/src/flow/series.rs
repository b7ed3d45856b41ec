// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of subflows over time: from the store, which keeps them for long connections only, or collected from snapshots.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::flow::class::FlowClass;
use crate::flow::subflow::Subflow;
use crate::id::{ConnectionId, SubflowId};
use crate::snapshot::Snapshot;
use crate::unit::{Bytes, Microjoules, Micros};

/// Counters of a subflow at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSample {
    /// When the counters were read.
    pub at: Timestamp,
    /// Payload sent since the subflow was opened, retransmissions included.
    pub bytes_sent: Bytes,
    /// Payload received since the subflow was opened.
    pub bytes_received: Bytes,
    /// Payload retransmitted since the subflow was opened.
    pub bytes_retransmitted: Bytes,
    /// Smoothed RTT. `None`: unknown.
    pub srtt: Option<Micros>,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Energy above idle since the subflow was opened. `None`: unknown.
    pub active: Option<Microjoules>,
}

impl CounterSample {
    /// The counters of a subflow, read at this time.
    pub fn new(subflow: &Subflow, at: Timestamp) -> Self {
        Self {
            at,
            bytes_sent: subflow.bytes_sent,
            bytes_received: subflow.bytes_received,
            bytes_retransmitted: subflow.bytes_retransmitted,
            srtt: subflow.srtt,
            cwnd_segments: subflow.cwnd_segments,
            active: subflow.energy.and_then(|energy| energy.active),
        }
    }
}

/// The samples of each subflow in order of time. Short connections have no samples.
pub type CounterSeries = HashMap<(ConnectionId, SubflowId), Vec<CounterSample>>;

/// Maximum number of samples per subflow in a collector.
pub const MAX_SAMPLES: usize = 1_000;

/// Collects samples of long flows. Whenever a subflow has [`MAX_SAMPLES`], keeps every second sample and from then on samples half as often.
#[derive(Debug, Default)]
pub struct SeriesCollector {
    series: CounterSeries,
    snapshots: usize,
    /// How often the number of sampled snapshots was halved.
    halvings: u32,
}

impl SeriesCollector {
    /// Adds a snapshot. Snapshots must be added in order of time.
    pub fn add(&mut self, snapshot: &Snapshot) {
        let is_kept = self.snapshots.is_multiple_of(1 << self.halvings);
        self.snapshots += 1;
        if !is_kept {
            return;
        }
        let mut most = 0;
        for connection in snapshot.connections.iter().filter(|flow| flow.flow_class == FlowClass::Long) {
            for subflow in connection.subflows.iter().filter(|subflow| subflow.closed.is_none()) {
                let samples = self.series.entry((connection.id, subflow.id)).or_default();
                samples.push(CounterSample::new(subflow, snapshot.at));
                most = most.max(samples.len());
            }
        }
        if most >= MAX_SAMPLES {
            self.halvings += 1;
            self.series.values_mut().for_each(thin);
        }
    }

    /// Returns the samples.
    pub fn finish(self) -> CounterSeries {
        self.series
    }
}

/// Keeps every second sample.
fn thin(samples: &mut Vec<CounterSample>) {
    let mut nth = 0;
    samples.retain(|_| {
        nth += 1;
        nth % 2 == 1
    });
}
