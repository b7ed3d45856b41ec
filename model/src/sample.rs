// SPDX-License-Identifier: MIT OR Apache-2.0
//! Points of a subflow's path over time, as the sender sees it: what bottlenecks are found by. Far more frequent than records, and
//! only of connections with several subflows that have something in flight.

use serde::{Deserialize, Serialize};

use crate::id::SubflowId;
use crate::unit::{Micros, Nanos};

/// How a path looked when an acknowledgement had come. Written as a row of numbers: recordings hold thousands of them a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct DelaySample {
    /// When the acknowledgement came (`delivered_mstamp`), on the boot clock. Differences are those of the monotonic clock, so no
    /// step of the calendar moves them.
    pub at: Nanos,
    /// RTT of the segment that it acknowledged (`rack.rtt_us`), not smoothed.
    pub rtt: Micros,
    /// Segments delivered so far (`tcpi_delivered`); wraps.
    pub delivered: u32,
    /// Segments marked lost so far (`tcp_sock.lost`); wraps.
    pub lost: u32,
    /// The congestion window is being cut, or was just cut: the socket is in CWR, Recovery or Loss.
    pub cut: bool,
}

type Row = (u64, u64, u32, u32, u8);

impl From<Row> for DelaySample {
    fn from((at, rtt, delivered, lost, cut): Row) -> Self {
        Self { at: Nanos(at), rtt: Micros(rtt), delivered, lost, cut: cut != 0 }
    }
}

impl From<DelaySample> for Row {
    fn from(point: DelaySample) -> Self {
        (point.at.0, point.rtt.0, point.delivered, point.lost, point.cut.into())
    }
}

/// Some samples of one subflow, oldest first: at most one a millisecond, and at most 16 in a round trip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleBatch {
    /// Of which subflow.
    pub id: SubflowId,
    /// The points.
    pub points: Vec<DelaySample>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_a_row_of_numbers_and_back() {
        let point = DelaySample { at: Nanos(5), rtt: Micros(7), delivered: 9, lost: 1, cut: true };
        let text = serde_json::to_string(&point).unwrap();
        assert_eq!(text, "[5,7,9,1,1]");
        assert_eq!(serde_json::from_str::<DelaySample>(&text).unwrap(), point);
    }
}
