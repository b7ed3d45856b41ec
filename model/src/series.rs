// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of subflows over time, as the store keeps them for long connections.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::id::{ConnectionId, SubflowId};
use crate::unit::{Bytes, Microjoules, Micros};

/// Counters of a subflow at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSample {
    /// When they were read.
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

/// The samples of each subflow in the order of time. Short connections have none.
pub type CounterSeries = HashMap<(ConnectionId, SubflowId), Vec<CounterSample>>;
