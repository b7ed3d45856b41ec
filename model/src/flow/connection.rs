// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection as shown in outputs: an MPTCP connection with its subflows, or a plain TCP connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::bottleneck::Bottlenecks;
use crate::flow::class::FlowClass;
use crate::flow::observed::Observed;
use crate::flow::ratio::excess;
use crate::flow::subflow::{DroppedSubflows, MAX_ENDED, Subflow};
use crate::flow::timeline::{Offset, TimelineEntry, TimelineEvent};
use crate::host::energy::FlowEnergy;
use crate::host::names::Pod;
use crate::id::{ConnectionId, SubflowId, Token};
use crate::kernel::busy::{BusyTimes, TimeAccount};
use crate::kernel::clock::shifted;
use crate::kernel::cpu::CpuTimes;
use crate::kernel::event::Process;
use crate::kernel::lifecycle::{CarriedBy, CloseReason, FallbackReason, Protocol, Role, TcpState};
use crate::metric::derived;
use crate::unit::{BitsPerSecond, Bytes, Micros, sum_if_all_known};
use crate::why::answer::Cause;

/// Minimum difference between the age and the observed duration of a connection that counts as a gap, seconds.
const MIN_UNOBSERVED_GAP: f64 = 0.05;

/// One connection. `null` means unknown or not applicable, never zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(transform = derived::extend_schema::<Connection>)]
pub struct Connection {
    /// `NETNS-TOKEN-COOKIE`, each in hexadecimal: cookie of the network namespace, local token (0 for plain TCP), and socket cookie. The id does
    /// not change in the life of the connection, even if mpwatch is restarted.
    pub id: ConnectionId,
    /// Local token. `null`: plain TCP, or a fallback before the handshake.
    pub token: Option<Token>,
    /// Token of the peer. The other end reports the two tokens swapped.
    pub remote_token: Option<Token>,
    /// Name of the network namespace; `net:[inode]` if it has none.
    pub netns: String,
    /// Inode of the network namespace, as `readlink /proc/PID/ns/net` shows it.
    pub netns_inode: u32,
    /// Role of this host. `null`: a plain TCP connection that was opened before mpwatch started.
    pub role: Option<Role>,
    /// Local address and port of the initial subflow, or of the first subflow that mpwatch traced.
    #[schemars(with = "Option<String>")]
    pub local: Option<SocketAddr>,
    /// Remote address and port of the same subflow.
    #[schemars(with = "Option<String>")]
    pub remote: Option<SocketAddr>,
    /// Process that connected the socket, has it open, or closed it. `null`: unknown, for example before accept(2).
    pub process: Option<Process>,
    /// Control group of the socket, as a path in the cgroup2 hierarchy. The path begins with `/...` if it has more than 16 levels.
    pub cgroup: Option<String>,
    /// Kubernetes pod of the control group. `null`: the control group belongs to no pod, or the name of the pod is unknown.
    pub pod: Option<Pod>,
    /// Time of the opening. `null`: the opening was not traced (`seen_open` is `false`).
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub opened_at: Option<Timestamp>,
    /// Whether the opening was traced. If not, counters are still totals, because the kernel keeps them, but the time of the opening is unknown.
    pub seen_open: bool,
    /// Age in seconds, from the opening (if not traced: from when it was first seen) to this snapshot, or to the end of the connection.
    pub age_s: f64,
    /// State of the MPTCP (or TCP) socket.
    pub state: TcpState,
    /// Time of the end; if it ended while mpwatch was not running (`unobserved`), when it was last observed. `null`: the connection is open.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub closed_at: Option<Timestamp>,
    /// Protocol with which the connection was opened.
    pub protocol: Protocol,
    /// Reason for the fallback, if the connection continues as plain TCP. `null`: there was no fallback.
    pub fallback: Option<Fallback>,
    /// Why no second path joined, or why the connection fell back: the first cause of `mpwatch why`. `null`: it has several paths, nothing was found,
    /// or mpwatch could not read its network namespace.
    #[serde(default)]
    pub cause: Option<Arc<Cause>>,
    /// Payload that MPTCP passed to subflows, each byte once (`mptcpi_bytes_sent`, plus the payload of a Fast Open SYN). The last part may still
    /// wait in the send queue of a subflow.
    pub bytes_sent: Option<Bytes>,
    /// Payload acknowledged by the peer's MPTCP (`mptcpi_bytes_acked`; the DATA_FIN counts as one byte).
    pub bytes_acked: Option<Bytes>,
    /// Payload received in order (`mptcpi_bytes_received`).
    pub bytes_received: Option<Bytes>,
    /// Payload retransmitted by TCP, over all subflows.
    pub bytes_retransmitted: Bytes,
    /// Payload that MPTCP reinjected on another subflow: bytes sent by the subflows in excess of the connection's payload; 0 with one subflow.
    /// `null`: plain TCP, or a subflow may have ended before tracing began.
    pub bytes_reinjected: Option<Bytes>,
    /// Payload that MPTCP's retransmission timer reinjected (`mptcpi_bytes_retrans`); reinjections at the end of a subflow are not included.
    /// `null`: plain TCP, or a kernel before 6.5.
    pub mptcp_bytes_retransmitted: Option<Bytes>,
    /// Rate at which the subflows sent payload in the interval, retransmissions included. `null`: no interval was observed yet.
    #[serde(rename = "send_bps")]
    pub send: Option<BitsPerSecond>,
    /// Rate at which the subflows received payload in the interval. `null`: no interval was observed yet.
    #[serde(rename = "receive_bps")]
    pub receive: Option<BitsPerSecond>,
    /// The part of the connection that mpwatch observed; CPU time and energy cover only this part. `null`: the payload is unknown.
    pub observed: Option<Observed>,
    /// Whether mpwatch observed only a part: the connection was opened before mpwatch started, or mpwatch was not running for a time.
    pub partly_observed: bool,
    /// Size class by the payload carried so far `[UPD18]`.
    pub flow_class: FlowClass,
    /// Observed time with data queued or in flight: the sum over its subflows. `null`: unknown for one of them.
    #[serde(rename = "busy_ns", default)]
    pub busy: Option<BusyTimes>,
    /// CPU time of this machine's network stack for the connection since tracing began: the sum over its subflows. `null`: not accounted.
    #[serde(rename = "cpu_ns")]
    pub cpu: Option<CpuTimes>,
    /// Energy of this machine's network stack for the connection: the sum over its subflows. `null`: not accounted, or nothing was charged yet.
    pub energy: Option<FlowEnergy>,
    /// Jain's fairness index of the subflows' goodputs `[RN10]`; 1: all goodputs are equal. `null`: fewer than two subflows.
    pub jain_index: Option<f64>,
    /// When the second path joined, and when it began to carry traffic `[ICPE19]`. `null`: no subflow joined, or the join was not traced.
    pub second_path: Option<SecondPath>,
    /// Which subflows share a bottleneck, from delay samples of this host as the sender. `null`: fewer than two subflows, or detection is disabled
    /// (`--no-bottlenecks`, or see `host.missing`).
    pub bottlenecks: Option<Bottlenecks>,
    /// Number of subflows in excess of one per bottleneck `[MPTCP-D]`: they add no throughput and cost energy. `null`: none was found, but a
    /// verdict is `unknown`; or `bottlenecks` is `null`.
    pub extra_subflows: Option<u32>,
    /// Start of the current outage: since then, no path has made progress, although data waits. `null`: there is no outage.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub outage_since: Option<Timestamp>,
    /// Subflows in order of creation: the initial subflow, all open subflows, and at most 48 other subflows that have ended.
    pub subflows: Vec<Subflow>,
    /// Sums over ended subflows that are no longer listed. `null`: all subflows are listed.
    pub dropped_subflows: Option<Box<DroppedSubflows>>,
    /// Events in the life of the connection, in order of time.
    pub timeline: Vec<TimelineEntry>,
}

impl Connection {
    /// Moves all times of the connection by `by_ns` nanoseconds.
    pub fn shift(&mut self, by_ns: i64) {
        let shift = |at: &mut Timestamp| *at = shifted(*at, by_ns);
        self.opened_at.iter_mut().chain(&mut self.closed_at).chain(&mut self.outage_since).for_each(shift);
        for subflow in &mut self.subflows {
            subflow
                .created_at
                .iter_mut()
                .chain(&mut subflow.progress_since)
                .chain(subflow.closed.iter_mut().map(|closed| &mut closed.at))
                .for_each(shift);
        }
        self.timeline.iter_mut().for_each(|entry| shift(&mut entry.at));
    }

    /// Payload sent, each byte counted once. If the connection has no counter, the sum over its subflows.
    pub fn payload_sent(&self) -> Bytes {
        let listed = || self.subflows.iter().map(Subflow::unique_sent).sum::<Bytes>();
        self.bytes_sent.unwrap_or_else(|| listed() + self.dropped().bytes_sent)
    }

    /// Payload in both directions, each byte counted once.
    pub fn payload(&self) -> Bytes {
        self.payload_sent() + self.bytes_received.unwrap_or_default()
    }

    /// Rate in both directions. `None`: unknown.
    pub fn rate(&self) -> Option<BitsPerSecond> {
        Some(self.send? + self.receive?)
    }

    /// Payload that was observed. If the connection has no counter, the sum over its subflows.
    pub fn observed_payload(&self) -> Bytes {
        let listed = || self.subflows.iter().map(|subflow| subflow.observed.bytes).sum::<Bytes>();
        self.observed.map_or_else(|| listed() + self.dropped().bytes, |observed| observed.bytes)
    }

    /// Time in the life of the connection in which mpwatch was not running, seconds. `None`: mpwatch was always running.
    pub fn unobserved_gap(&self) -> Option<f64> {
        Some(self.age_s - self.observed?.duration.seconds()).filter(|gap| *gap > MIN_UNOBSERVED_GAP)
    }

    /// Whether mpwatch observed only a part of the connection.
    pub fn is_partly_observed(&self) -> bool {
        !self.seen_open || self.unobserved_gap().is_some() || self.has_unobserved_end()
    }

    /// Whether the connection ended while mpwatch was not running. `closed_at` is then when mpwatch last observed it.
    pub fn has_unobserved_end(&self) -> bool {
        let mut ends = self.subflows.iter().filter_map(|subflow| subflow.closed);
        ends.any(|end| end.reason == CloseReason::Unobserved && Some(end.at) == self.closed_at)
    }

    /// Whether mpwatch, when it was restarted, found the connection open at this time.
    pub fn was_found_at(&self, at: Timestamp) -> bool {
        let is_near = |found: Timestamp| found.duration_since(at).unsigned_abs() < Duration::from_millis(1);
        self.timeline.iter().any(|entry| entry.event == TimelineEvent::Adopted && is_near(entry.at))
    }

    /// Estimated bytes on the wire in both directions, over all subflows.
    pub fn wire_bytes_estimate(&self) -> Bytes {
        let wire = |s: &Subflow| s.wire_bytes_sent_estimate + s.wire_bytes_received_estimate;
        self.subflows.iter().map(wire).sum::<Bytes>() + self.dropped().wire_bytes_estimate
    }

    /// Payload and wire bytes (estimated) that were observed. If the connection's payload is unknown, the totals of its whole life.
    pub(crate) fn payload_and_wire(&self) -> (Bytes, Bytes) {
        let all = || (self.payload(), self.wire_bytes_estimate());
        self.observed.map_or_else(all, |observed| (observed.bytes, observed.wire_bytes_estimate))
    }

    /// Excess traffic `[UPD18]`: fraction of the observed wire bytes (estimated) that was headers and retransmissions instead of new payload.
    /// `None`: there were no wire bytes.
    pub fn excess_ratio(&self) -> Option<f64> {
        let (payload, wire) = self.payload_and_wire();
        excess(payload, wire)
    }

    /// Where the observed time of its subflows went: the sum of their accounts, so an idle second subflow adds to the application's part. `None`:
    /// unknown for a subflow, or there are no subflows.
    pub fn time_account(&self) -> Option<TimeAccount> {
        let dropped = self.dropped_subflows.iter();
        let dropped = dropped.map(|dropped| Some(TimeAccount::new(dropped.observed.duration, dropped.busy?)));
        sum_if_all_known(self.subflows.iter().map(Subflow::time_account).chain(dropped))
    }

    /// The protocol that carries the payload.
    pub fn carried_by(&self) -> CarriedBy {
        match self.protocol {
            Protocol::Tcp => CarriedBy::Tcp,
            Protocol::Mptcp if self.fallback.is_some() => CarriedBy::Fallback,
            Protocol::Mptcp => CarriedBy::Mptcp,
        }
    }

    /// Whether the connection is still open.
    pub fn is_open(&self) -> bool {
        self.closed_at.is_none()
    }

    /// The observed values of the subflows that are not listed.
    pub(crate) fn dropped(&self) -> Observed {
        self.dropped_subflows.as_ref().map(|dropped| dropped.observed).unwrap_or_default()
    }

    /// Number of ended subflows in excess of the maximum that is listed.
    pub fn excess_subflows(&self) -> usize {
        let ended = self.subflows.iter().filter(|subflow| !subflow.initial && subflow.closed.is_some());
        ended.count().saturating_sub(MAX_ENDED)
    }

    /// The number of a subflow in the connection, from 1. `None`: it belongs to another connection.
    pub fn subflow_number(&self, subflow: SubflowId) -> Option<usize> {
        self.subflows.iter().position(|candidate| candidate.id == subflow).map(|index| index + 1)
    }

    /// The name of a subflow for users: its number, or its id if the connection does not list it.
    pub fn subflow_name(&self, subflow: SubflowId) -> String {
        self.subflow_number(subflow).map_or_else(|| subflow.to_string(), |number| number.to_string())
    }

    /// The time at which the connection was read. `None`: unknown.
    pub fn read_at(&self) -> Option<Timestamp> {
        let age = SignedDuration::try_from_secs_f64(self.age_s).ok()?;
        self.opened_at?.checked_add(age).ok()
    }

    /// Time since the opening or, if the opening was not traced, since the first known event.
    pub fn offset(&self, at: Timestamp) -> Offset {
        let first = self.opened_at.or_else(|| self.timeline.first().map(|entry| entry.at));
        Offset::between(first.unwrap_or(at), at)
    }
}

/// A fallback to plain TCP (RFC 8684 section 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fallback {
    /// Reason for the fallback, as far as the kernel reports it; never a guess.
    pub reason: FallbackReason,
}

/// The start of the second path `[ICPE19]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecondPath {
    /// Time from the opening of the connection to the state ESTABLISHED of the first joined subflow.
    #[serde(rename = "after_us")]
    pub after: Micros,
    /// Payload that the connection had carried at that time. `null`: not traced.
    pub after_bytes: Option<Bytes>,
    /// Payload that the connection had delivered when a joined subflow had carried 10 % of it. A sender counts payload once it is acknowledged, so
    /// its value is larger than the receiver's if delays differ. `null`: no joined subflow has carried 10 % yet, or mpwatch was restarted before.
    pub effective_after_bytes: Option<Bytes>,
}
