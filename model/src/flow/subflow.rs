// SPDX-License-Identifier: MIT OR Apache-2.0
//! A subflow as shown in outputs: one TCP connection of an MPTCP connection, or a plain TCP connection.

use std::net::SocketAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::observed::Observed;
use crate::flow::progress::Progress;
use crate::flow::ratio::excess;
use crate::host::energy::FlowEnergy;
use crate::id::SubflowId;
use crate::kernel::busy::{BusyTimes, TimeAccount};
use crate::kernel::cpu::CpuTimes;
use crate::kernel::endpoint::Name;
use crate::kernel::lifecycle::{CloseReason, TcpState};
use crate::metric::derived;
use crate::unit::{BitsPerSecond, Bytes, Micros, sum_if_all_known};

/// One subflow. `null` means unknown or not applicable, never zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(transform = derived::extend_schema::<Subflow>)]
pub struct Subflow {
    /// `cookie.generation`; stable for the life of the subflow.
    pub id: SubflowId,
    /// Number of the subflow among all subflows of the connection, from 1.
    #[serde(default)]
    pub place: u32,
    /// Local address and port.
    #[schemars(with = "String")]
    pub local: SocketAddr,
    /// Remote address and port.
    #[schemars(with = "String")]
    pub remote: SocketAddr,
    /// MPTCP id of the local address; 0: the address of the initial subflow (RFC 8684 section 3.2).
    pub local_id: u8,
    /// MPTCP id of the remote address.
    pub remote_id: u8,
    /// Interface through which the subflow sends. `null`: the socket has no cached route.
    pub interface: Option<Name>,
    /// Interface through which the latest segments arrived. `null`: unknown.
    pub incoming_interface: Option<Name>,
    /// Name of the congestion control, read when a counter of the subflow last changed. `null`: unknown.
    pub congestion_control: Option<Name>,
    /// Whether the subflow is the initial subflow (MP_CAPABLE), or a plain TCP connection. `false`: the subflow joined (MP_JOIN).
    pub initial: bool,
    /// Whether one end asked to use the subflow only if no other path works (backup).
    pub backup: bool,
    /// Progress of the subflow; if the subflow has closed, its last progress.
    pub progress: Progress,
    /// Start of this progress; for `stalled` and `failed`, the last acknowledgement, or the sending of the data if that was later. `null`:
    /// unknown.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub progress_since: Option<Timestamp>,
    /// Number of failures of the path. A failure less than 10 s after a recovery counts as the same failure.
    pub path_failures: u32,
    /// TCP state.
    pub state: TcpState,
    /// Time at which the SYN was sent or answered. `null`: before tracing began, or no SYN was sent.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub created_at: Option<Timestamp>,
    /// Duration of the handshake: from SYN to SYN-ACK at the connecting end, from SYN-ACK to ACK at the accepting end.
    #[serde(rename = "handshake_us")]
    pub handshake: Option<Micros>,
    /// Time from the opening of the connection to the state ESTABLISHED of this subflow. `null`: the initial subflow, or not traced.
    #[serde(rename = "joined_after_us")]
    pub joined_after: Option<Micros>,
    /// Payload that the connection had carried at that time, in both directions. `null`: the initial subflow, or not traced.
    pub joined_after_bytes: Option<Bytes>,
    /// Payload sent, retransmissions included (`tcpi_bytes_sent` minus `bytes_refused`).
    pub bytes_sent: Bytes,
    /// Payload acknowledged (`tcpi_bytes_acked`; the SYN of an active open and a FIN count as one byte each).
    pub bytes_acked: Bytes,
    /// Payload received (`tcpi_bytes_received`; a FIN counts as one byte).
    pub bytes_received: Bytes,
    /// Payload retransmitted by TCP (`tcpi_bytes_retrans` minus refused retransmissions).
    pub bytes_retransmitted: Bytes,
    /// Payload of segments that a full queue of this host refused to send. The kernel counts it in `tcpi_bytes_sent` and `tcpi_bytes_retrans`.
    pub bytes_refused: Bytes,
    /// Segments retransmitted, SYN and SYN-ACK included (`tcpi_total_retrans`).
    pub segments_retransmitted: u32,
    /// Retransmitted segments by cause, counted only while mpwatch observed the subflow. `null`: the retransmission hook is missing.
    pub retransmits: Option<Retransmits>,
    /// RTT of the most recently acknowledged segment.
    #[serde(rename = "rtt_us")]
    pub rtt: Option<Micros>,
    /// Smoothed RTT (RFC 6298).
    #[serde(rename = "srtt_us")]
    pub srtt: Option<Micros>,
    /// Mean deviation of the RTT (`tcpi_rttvar`).
    #[serde(rename = "rttvar_us")]
    pub rttvar: Option<Micros>,
    /// Minimum RTT in the kernel's window (5 minutes by default).
    #[serde(rename = "rtt_min_us")]
    pub rtt_min: Option<Micros>,
    /// Median of all RTT samples since tracing began; accurate to 6 %.
    #[serde(rename = "rtt_p50_us")]
    pub rtt_p50: Option<Micros>,
    /// 99th percentile of all RTT samples since tracing began; accurate to 6 %.
    #[serde(rename = "rtt_p99_us")]
    pub rtt_p99: Option<Micros>,
    /// Number of RTT samples behind `rtt_p50_us` and `rtt_p99_us`.
    pub rtt_samples: u64,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Delivery rate of the kernel's last rate sample (`tcpi_delivery_rate`, here in bits per second).
    #[serde(rename = "delivery_bps")]
    pub delivery: Option<BitsPerSecond>,
    /// Segments that the kernel has marked lost so far.
    pub lost_segments: u32,
    /// Retransmission timeouts so far. `null`: a kernel before 6.7.
    pub timeouts: Option<u32>,
    /// Rate of sent payload in the interval, retransmissions included. `null`: no interval was observed yet.
    #[serde(rename = "send_bps")]
    pub send: Option<BitsPerSecond>,
    /// Rate of received payload in the interval. `null`: no interval was observed yet.
    #[serde(rename = "receive_bps")]
    pub receive: Option<BitsPerSecond>,
    /// The part of the subflow that mpwatch observed; CPU time and energy cover only this part.
    pub observed: Observed,
    /// Observed time in which data was queued or in flight. In the rest of `observed.duration_ns`, neither the application nor MPTCP gave the
    /// subflow data to send. `null`: unknown, because the socket has connected again.
    #[serde(rename = "busy_ns", default)]
    pub busy: Option<BusyTimes>,
    /// Share of this subflow in the observed payload that all subflows of the connection sent, 0 to 1. Reinjections count, TCP retransmissions do
    /// not. `null`: nothing was sent yet.
    pub share_sent: Option<f64>,
    /// Estimate of the bytes sent on the wire, headers included.
    pub wire_bytes_sent_estimate: Bytes,
    /// Estimate of the bytes received on the wire, headers included.
    pub wire_bytes_received_estimate: Bytes,
    /// Rounds of the MPTCP scheduler. `null`: not measured (plain TCP, ledger not `exact`, or see `host.missing`).
    pub scheduler: Option<Scheduler>,
    /// CPU time of this machine's network stack for the subflow since tracing began. `null`: not accounted (`--ledger off`, or see
    /// `host.missing`), or no window of a sampled ledger has ended yet.
    #[serde(rename = "cpu_ns")]
    pub cpu: Option<CpuTimes>,
    /// Energy of this machine's network stack for the subflow. `null`: CPU time is not accounted, or no energy was charged yet.
    pub energy: Option<FlowEnergy>,
    /// Time and reason of the end. `null`: the subflow is open.
    pub closed: Option<Closed>,
}

impl Subflow {
    /// Payload sent, each byte counted once.
    pub fn unique_sent(&self) -> Bytes {
        self.bytes_sent.since(self.bytes_retransmitted)
    }

    /// Rate in both directions. `None`: unknown.
    pub fn rate(&self) -> Option<BitsPerSecond> {
        Some(self.send? + self.receive?)
    }

    /// Smoothed RTT of a path that works. `None`: unknown, the path gets no acknowledgements, or the subflow closed after a failure.
    pub fn current_srtt(&self) -> Option<Micros> {
        let has_failed = self.is_failed() || (self.closed.is_some() && self.path_failures > 0);
        self.srtt.filter(|_| !has_failed)
    }

    /// Whether the path has failed and no acknowledgement has arrived since.
    pub fn is_failed(&self) -> bool {
        self.progress == Progress::Failed
    }

    /// Whether the subflow is or was a path: its handshake completed, or it is older than mpwatch.
    pub fn is_path(&self) -> bool {
        let is_connecting = self.state == TcpState::SynSent;
        let never_joined = self.closed.is_some_and(|closed| closed.reason.is_failed_handshake());
        !never_joined && !is_connecting && (self.created_at.is_none() || self.was_answered())
    }

    /// Fraction of the observed wire bytes (estimated) that was not payload. `None`: there were no wire bytes.
    pub fn excess_ratio(&self) -> Option<f64> {
        excess(self.observed.bytes, self.observed.wire_bytes_estimate)
    }

    /// Where the observed time went. `None`: unknown.
    pub fn time_account(&self) -> Option<TimeAccount> {
        Some(TimeAccount::new(self.observed.duration, self.busy?))
    }

    /// Whether the peer has answered: the handshake completed, or payload was acknowledged or received.
    pub fn was_answered(&self) -> bool {
        self.handshake.is_some() || self.bytes_acked.0 + self.bytes_received.0 > 0
    }
}

/// Maximum number of ended subflows that are listed in addition to the initial subflow; each takes about 2 kB in memory and 2 kB in JSON.
/// With 8 open subflows, the connection has fewer than 63 subflows (`SOCKET` in the tracker), so it can become idle.
pub const MAX_ENDED: usize = 48;

/// Ended subflows that a connection no longer lists. The sums of the connection include them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedSubflows {
    /// Number of these subflows.
    pub count: u32,
    /// Number of failures of their paths.
    pub path_failures: u32,
    /// Payload that TCP retransmitted on these subflows.
    pub bytes_retransmitted: Bytes,
    /// Payload, times and wire bytes of the observed part of these subflows.
    pub observed: Observed,
    /// Sum of their `busy_ns`. `null`: unknown.
    #[serde(rename = "busy_ns", default)]
    pub busy: Option<BusyTimes>,
    /// CPU time of the network stack for these subflows. `null`: CPU time is not accounted.
    #[serde(rename = "cpu_ns")]
    pub cpu: Option<CpuTimes>,
    /// Energy of the network stack for these subflows. `null`: CPU time is not accounted.
    pub energy: Option<FlowEnergy>,
}

impl DroppedSubflows {
    /// Adds a subflow.
    pub fn add(&mut self, subflow: &Subflow) {
        let known: Vec<&FlowEnergy> = self.energy.iter().chain(&subflow.energy).collect();
        self.energy = (!known.is_empty()).then(|| FlowEnergy::sum(known));
        let is_first = self.count == 0;
        let before = Some(self.cpu).filter(|_| !is_first);
        self.cpu = sum_if_all_known(before.into_iter().chain([subflow.cpu]));
        let before = Some(self.busy).filter(|_| !is_first);
        self.busy = sum_if_all_known(before.into_iter().chain([subflow.busy]));
        self.count += 1;
        self.path_failures += subflow.path_failures;
        self.bytes_retransmitted += subflow.bytes_retransmitted;
        self.observed = self.observed.plus(subflow.observed);
    }
}

/// Retransmitted fraction of the payload that these subflows sent. `None`: they sent no payload.
pub fn retransmitted_ratio<'a>(subflows: impl IntoIterator<Item = &'a Subflow>) -> Option<f64> {
    let (sent, again) = subflows.into_iter().fold((Bytes(0), Bytes(0)), |(sent, again), subflow| {
        (sent + subflow.bytes_sent, again + subflow.bytes_retransmitted)
    });
    (sent.0 > 0).then(|| again.0 as f64 / sent.0 as f64)
}

/// Mean of the median RTTs of these subflows, in seconds, weighted by their number of RTT samples. `None`: there are no samples.
pub fn mean_rtt<'a>(subflows: impl IntoIterator<Item = &'a Subflow>) -> Option<f64> {
    let known = subflows.into_iter().filter_map(|subflow| Some((subflow.rtt_p50?, subflow.rtt_samples)));
    let (sum, samples) = known
        .fold((0.0, 0), |(sum, all), (rtt, samples)| (sum + rtt.seconds() * samples as f64, all + samples));
    (samples > 0).then(|| sum / samples as f64)
}

/// Number of retransmitted segments by cause. SYN-ACKs, and segments that the tracepoint did not report, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retransmits {
    /// Segments retransmitted in recovery (fast retransmit, RACK).
    pub fast: u32,
    /// Segments retransmitted after a retransmission timeout.
    pub timeout: u32,
    /// Segments retransmitted as a tail loss probe.
    pub probe: u32,
}

/// Decisions of the default MPTCP scheduler (`mptcp_subflow_get_send`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scheduler {
    /// Rounds in which the scheduler considered this subflow.
    pub considered: u64,
    /// Rounds at whose end the scheduler had assigned data to this subflow.
    pub picked: u64,
}

/// The end of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Closed {
    /// Time at which the subflow reached the state CLOSE.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// Reason of the end, as far as the kernel reports it.
    pub reason: CloseReason,
}
