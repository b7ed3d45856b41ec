// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP counters of the kernel, and the state of a subflow that waits for its peer.

use serde::{Deserialize, Serialize};

use crate::kernel::busy::{BusyTimes, Limit};
use crate::unit::{Bytes, Micros, Nanos};

/// The counters of `struct tcp_sock` that mpwatch reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpCounters {
    /// Payload sent, retransmissions included (`tcpi_bytes_sent` without `bytes_refused`).
    pub bytes_sent: Bytes,
    /// Payload of attempts to send that a queue of this host refused. The kernel counts it as sent.
    pub bytes_refused: Bytes,
    /// Payload in `bytes_sent` that a queue of this host dropped from larger packets, so that it was not on the wire.
    pub bytes_dropped: Bytes,
    /// Payload acknowledged (`tcpi_bytes_acked`). The SYN of an active open and a FIN count as one byte each.
    pub bytes_acked: Bytes,
    /// Payload received (`tcpi_bytes_received`). A FIN counts as one byte.
    pub bytes_received: Bytes,
    /// Retransmitted payload (`tcpi_bytes_retrans` without refused attempts).
    pub bytes_retransmitted: Bytes,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Micros,
    /// Mean deviation of the RTT.
    pub rttvar: Micros,
    /// Windowed minimum RTT; `u32::MAX`: never measured.
    pub rtt_min: Micros,
    /// RTT of the last delivered segment.
    pub rtt: Micros,
    /// Segments retransmitted, SYN and SYN-ACK included (`tcpi_total_retrans`).
    pub segments_retransmitted: u32,
    /// Number of segments marked lost so far.
    pub lost: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Number of segments delivered.
    pub delivered: u32,
    /// Number of segments delivered in the last rate sample.
    pub rate_delivered: u32,
    /// Duration of the last rate sample.
    pub rate_interval: Micros,
    /// Maximum segment size for sending.
    pub mss: u32,
    /// Number of segments sent.
    pub segments_out: u32,
    /// Number of segments received.
    pub segments_in: u32,
    /// Number of segments with data sent.
    pub data_segments_out: u32,
    /// Number of segments with data received.
    pub data_segments_in: u32,
    /// Number of retransmission timeouts. `None`: a kernel before 6.7.
    pub timeouts: Option<u32>,
    /// Time with data queued or in flight, without the interval that runs since [`Waiting::busy_since`]. `None`: unknown, because the recording is
    /// older, or because the socket has connected again, for which the kernel does not reset its clocks.
    pub busy: Option<BusyTimes>,
}

/// Data, window and timers for which a subflow waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Number of segments sent and not acknowledged (`tcpi_unacked`).
    pub in_flight: u32,
    /// The peer's receive window (`tcpi_snd_wnd`).
    pub window: Bytes,
    /// Number of consecutive retransmission timeouts (`tcpi_backoff`).
    pub backoff: u8,
    /// Number of unanswered keepalive or zero-window probes (`tcpi_probes`).
    pub probes: u8,
    /// When the last ACK arrived, with the precision of a timer tick. `None`: unknown.
    pub last_ack: Option<Nanos>,
    /// Time since which data is queued or in flight, with the precision of a timer tick. `None`: no data is queued or in flight.
    pub busy_since: Option<Nanos>,
    /// What limits the sender since then. `None`: nothing, or unknown.
    pub limit: Option<Limit>,
}

/// An interval without progress of a connection, as recorded on one of its subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Time of the last progress before the stall.
    pub from: Nanos,
    /// Time of the first progress after the stall.
    pub to: Nanos,
    /// Whether sent data was unacknowledged at the start. If not, the application was idle. `None`: the subflow had no data in flight.
    pub unacked: Option<bool>,
}

/// A receive window smaller than this counts as closed: it has no room for a segment, even on a path with the minimum MTU of IPv6.
pub const MIN_WINDOW: Bytes = Bytes(1_280);

/// Minimum length of a stall.
pub const MIN_STALL: Nanos = Nanos(100_000_000);
