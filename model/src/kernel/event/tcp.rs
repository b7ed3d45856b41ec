// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's TCP counts, and what a subflow waits for.

use serde::{Deserialize, Serialize};

use crate::unit::{Bytes, Micros, Nanos};

/// The counters of `struct tcp_sock` that mpwatch reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpCounters {
    /// Payload sent, retransmissions included (`tcpi_bytes_sent` without `bytes_refused`).
    pub bytes_sent: Bytes,
    /// Payload of attempts to send that a queue of this host refused. The kernel counts it as sent.
    pub bytes_refused: Bytes,
    /// Payload in `bytes_sent` that a queue of this host dropped from larger packets: it was not on the wire.
    pub bytes_dropped: Bytes,
    /// Acknowledged; the SYN of an active open and a FIN count as one byte each (`tcpi_bytes_acked`).
    pub bytes_acked: Bytes,
    /// Received; a FIN counts as one byte (`tcpi_bytes_received`).
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
    /// Segments ever marked lost.
    pub lost: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Segments delivered.
    pub delivered: u32,
    /// Last rate sample: segments delivered.
    pub rate_delivered: u32,
    /// Last rate sample: its duration.
    pub rate_interval: Micros,
    /// Maximum segment size for sending.
    pub mss: u32,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments sent with data.
    pub data_segments_out: u32,
    /// Segments received with data.
    pub data_segments_in: u32,
    /// Retransmission timeouts. `None`: a kernel before 6.7.
    pub timeouts: Option<u32>,
}

/// What a subflow waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Segments sent and not acknowledged (`tcpi_unacked`).
    pub in_flight: u32,
    /// The peer's receive window (`tcpi_snd_wnd`).
    pub window: Bytes,
    /// Retransmission timeouts in a row (`tcpi_backoff`).
    pub backoff: u8,
    /// Probes without an answer (`tcpi_probes`): keepalive, or of a closed window.
    pub probes: u8,
    /// The last ACK, to the precision of a timer tick. `None`: unknown.
    pub last_ack: Option<Nanos>,
    /// Since when data has been queued or in flight, to the precision of a timer tick. `None`: nothing is.
    pub busy_since: Option<Nanos>,
}

/// An interval without progress of a connection, as recorded on one of its subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Last progress before it.
    pub from: Nanos,
    /// First progress after it.
    pub to: Nanos,
    /// Sent data was unacknowledged when it began, so the application was not just idle. `None`: the subflow had nothing in flight.
    pub unacked: Option<bool>,
}

/// A smaller receive window is closed: it admits no segment, even on a path with the minimum MTU of IPv6.
pub const MIN_WINDOW: Bytes = Bytes(1_280);

/// Shorter intervals are not stalls.
pub const MIN_STALL: Nanos = Nanos(100_000_000);
