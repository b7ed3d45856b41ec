// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delay samples, the input of bottleneck detection. They are taken at the sender of a connection with several subflows, when ACKs arrive.

use serde::{Deserialize, Serialize};

use crate::id::SubflowId;
use crate::unit::{Micros, Nanos};

/// The state of a subflow when an acknowledgement arrived. Serialized as an array, because recordings have thousands per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Numbers", into = "Numbers")]
pub struct DelaySample {
    /// Arrival of the acknowledgement (`delivered_mstamp`), on the boot clock. Steps of the calendar clock do not affect it.
    pub at: Nanos,
    /// RTT of the acknowledged segment (`rack.rtt_us`), not smoothed.
    pub rtt: Micros,
    /// Segments delivered so far (`tcpi_delivered`); wraps.
    pub delivered: u32,
    /// Segments marked lost so far (`tcp_sock.lost`); wraps.
    pub lost: u32,
    /// Whether the congestion window is being reduced: the socket is in CWR, Recovery or Loss.
    pub cut: bool,
}

type Numbers = (u64, u64, u32, u32, u8);

impl From<Numbers> for DelaySample {
    fn from((at, rtt, delivered, lost, cut): Numbers) -> Self {
        Self { at: Nanos(at), rtt: Micros(rtt), delivered, lost, cut: cut != 0 }
    }
}

impl From<DelaySample> for Numbers {
    fn from(sample: DelaySample) -> Self {
        (sample.at.0, sample.rtt.0, sample.delivered, sample.lost, sample.cut.into())
    }
}

/// Consecutive samples of one subflow, oldest first: at most one per millisecond and 16 per round trip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleBatch {
    /// The subflow.
    pub id: SubflowId,
    /// The samples.
    pub samples: Vec<DelaySample>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_serialized_as_an_array_of_numbers() {
        let sample = DelaySample { at: Nanos(5), rtt: Micros(7), delivered: 9, lost: 1, cut: true };
        let text = serde_json::to_string(&sample).unwrap();
        assert_eq!(text, "[5,7,9,1,1]");
        assert_eq!(serde_json::from_str::<DelaySample>(&text).unwrap(), sample);
    }
}
