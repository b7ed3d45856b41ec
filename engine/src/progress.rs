// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the state of a subflow and of a connection from the kernel's state at one instant. All reports of stalls, failures, outages and
//! recoveries are derived from these states, so they do not depend on the arrival of segments.

use mpwatch_model::flow::progress::Progress;
use mpwatch_model::unit::{Bytes, Nanos};

/// Number of consecutive retransmission timeouts, or of unanswered probes, after which a path has failed. Fewer also occur with heavy loss.
const MAX_MISSED: u8 = 3;
/// A path has also failed if data in flight stays unacknowledged for both this number of timeouts and this time. The minimum time allows for
/// busy hosts, which answer late.
const MAX_SILENT_TIMEOUTS: u64 = 4;
const MAX_SILENT: Nanos = Nanos(2_000_000_000);
/// The kernel's minimum retransmission timeout (`TCP_RTO_MIN`), and its timeout before the first RTT sample.
const MIN_RTO: Nanos = Nanos(200_000_000);
pub(crate) const INITIAL_RTO: Nanos = Nanos(1_000_000_000);

/// The kernel's state of an open subflow.
#[allow(clippy::struct_excessive_bools, reason = "independent facts of the kernel")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathEvidence {
    /// Number of segments in flight.
    pub(crate) in_flight: u32,
    /// Whether data is queued or in flight.
    pub(crate) is_busy: bool,
    /// Whether the peer's window has no room for a segment.
    pub(crate) is_window_closed: bool,
    /// Consecutive retransmission timeouts that count against the path, and earlier consecutive timeouts that do not (`PathState::excused`).
    pub(crate) backoff: u8,
    pub(crate) excused: u8,
    /// Number of unanswered probes.
    pub(crate) probes: u8,
    /// Retransmission timeout without exponential backoff.
    pub(crate) rto: Nanos,
    /// Time since the last acknowledgement, or since data in flight was sent if that was later. `None`: unknown.
    pub(crate) silent: Option<Nanos>,
    /// Whether the path carried or acknowledged data since the previous evaluation.
    pub(crate) has_moved: bool,
    /// Whether the kernel has marked the subflow as stale.
    pub(crate) is_stale: bool,
    /// Whether the path failed earlier and no acknowledgement has ended the failure.
    pub(crate) stays_failed: bool,
}

/// The retransmission timeout that the kernel computes from the smoothed RTT and its variation (RFC 6298).
pub(crate) fn timeout(srtt: Nanos, variation: Nanos) -> Nanos {
    if srtt.0 == 0 { INITIAL_RTO } else { srtt + Nanos(variation.0 * 4).max(MIN_RTO) }
}

/// The state of a subflow.
pub(crate) fn of_path(path: &PathEvidence) -> Progress {
    let silent = path.silent.unwrap_or_default();
    // While the peer's window is closed, the kernel sends only probes or retransmissions, at intervals that double up to two minutes. So a path
    // that fails during this time is found only at its third unanswered probe.
    let rto = Nanos(path.rto.0 << path.excused.min(10));
    let is_silent = silent >= Nanos(rto.0 * MAX_SILENT_TIMEOUTS).max(MAX_SILENT);
    let missed = path.in_flight > 0 && (is_silent || path.backoff >= MAX_MISSED);
    if path.stays_failed || path.is_stale || path.probes >= MAX_MISSED || missed {
        Progress::Failed
    } else if path.is_window_closed && path.is_busy {
        Progress::LimitedByReceiver
    } else if path.in_flight > 0 && (silent >= path.rto || path.backoff > 0) {
        Progress::Stalled
    } else if path.in_flight > 0 || path.has_moved {
        Progress::Working
    } else {
        Progress::Idle
    }
}

/// The kernel's state of an open connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionEvidence {
    /// Payload without a DATA_ACK, and payload that was not yet sent on any subflow.
    pub(crate) unacked: Bytes,
    pub(crate) unsent: Bytes,
    /// Whether the peer's window has no room.
    pub(crate) is_window_closed: bool,
    /// Whether the window was closed a short time ago: the peer may have discarded data, which is retransmitted after a timeout.
    pub(crate) was_window_closed: bool,
    /// Whether the connection is plain TCP. The data of its subflow is used instead of `unacked` and `unsent`.
    pub(crate) is_tcp: bool,
    /// Time without an acknowledgement of data on any subflow, including ended subflows.
    pub(crate) silent: Nanos,
    /// Time without an ACK of any kind on paths with data in flight: the peer may answer without accepting data.
    pub(crate) unanswered: Nanos,
    /// Time without a DATA_ACK for unacknowledged payload. 0 if the kernel does not count acknowledged payload.
    pub(crate) undelivered: Nanos,
}

/// Whether the connection is in an outage: data waits, and no path makes progress. `paths`: its open subflows. If one of them is not stuck,
/// the outage begins only after `MAX_SILENT`. Until then, the kernel may still move the data of a failed path to this subflow, or the DATA_ACK
/// may be late although TCP has acknowledged all data.
pub(crate) fn is_outage(connection: &ConnectionEvidence, paths: &[(PathEvidence, Progress)]) -> bool {
    let is_stuck =
        |&(_, state): &(PathEvidence, Progress)| matches!(state, Progress::Stalled | Progress::Failed);
    let in_flight = || paths.iter().filter(|(path, _)| path.in_flight > 0);
    let all_are_stuck = paths.iter().all(is_stuck);
    let has_data = if connection.is_tcp {
        paths.iter().any(|(path, _)| path.in_flight > 0 || path.is_busy)
    } else {
        (connection.unacked + connection.unsent).0 > 0
    };
    let waits = has_data && (all_are_stuck || in_flight().next().is_some()) && in_flight().all(is_stuck);
    let rto = in_flight().map(|(path, _)| path.rto).max().unwrap_or(INITIAL_RTO).min(MAX_SILENT);
    let is_certain = all_are_stuck && !connection.was_window_closed && connection.unanswered >= rto;
    let least = if is_certain { rto } else { MAX_SILENT };
    waits && !connection.is_window_closed && connection.silent >= least
}

/// Whether the connection is in an outage although paths work: the peer accepts no data. In Linux 6.18, data after a gap can fill the
/// peer's receive buffer, so that it has no room for the missing data.
pub(crate) fn is_undelivered(connection: &ConnectionEvidence) -> bool {
    let is_limited = connection.is_window_closed || connection.was_window_closed;
    connection.undelivered >= MAX_SILENT && !is_limited
}
