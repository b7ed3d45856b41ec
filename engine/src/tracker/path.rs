// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a subflow's path, kept from tick to tick. [`crate::progress`] has the rules that determine it.

use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::kernel::event::{MIN_WINDOW, SubflowRecord, Waiting};
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::suspension::Suspensions;
use crate::progress::{self, PathEvidence};

/// Minimum length of a recovery that ends a failure (`outage::path_failures` has the same rule).
const MIN_RECOVERY: Nanos = Nanos(10_000_000_000);
/// With fewer consecutive timeouts, an ACK may have been sent before the path failed.
const MIN_RETRANSMITTED: u8 = 2;
/// Maximum difference between two readings of the time of one ACK.
pub(super) const ACK_ERROR: Nanos = Nanos(20_000_000);

/// The interval between two ticks.
#[derive(Clone, Copy)]
pub(super) struct Interval<'a> {
    pub(super) previous: Nanos,
    pub(super) now: Nanos,
    pub(super) suspensions: &'a Suspensions,
}

impl Interval<'_> {
    /// Time at which the kernel's state in a record was read. On a busy machine, this is seconds before the tick.
    pub(super) fn read_at(&self, record: &SubflowRecord) -> Nanos {
        if record.at > self.previous { record.at } else { self.now }
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct PathState {
    pub(super) progress: Progress,
    /// Start of this state. `None`: unknown.
    pub(super) since: Option<Nanos>,
    /// Number of failures so far.
    pub(super) failures: u32,
    /// Time of the latest recovery. `None`: no recovery.
    recovered: Option<Nanos>,
    /// Payload acknowledged, and the time of the last ACK, at the failure. `None`: the path has not failed.
    failed: Option<(Bytes, Option<Nanos>)>,
    /// Payload acknowledged and received at the last evaluation.
    carried: (Bytes, Bytes),
    /// Time of the last ACK that acknowledged data. The peer's data segments are ACKs too, even if no segment of this host reaches the peer.
    pub(super) acked_at: Option<Nanos>,
    /// Consecutive timeouts that do not count against the path: the peer's window was closed, or the peer answered without accepting the data.
    excused: u8,
    /// Time of the last ACK of any kind, the peer's window, and the number of received segments with data, at the last evaluation.
    answered: Option<Nanos>,
    window: Bytes,
    segments: u32,
}

/// Whether an open socket with this record can have data in flight.
pub(super) fn carries_data(record: &SubflowRecord) -> bool {
    let has_unacked = || record.tcp.bytes_sent.since(record.tcp.bytes_retransmitted) > record.tcp.bytes_acked;
    match record.state {
        TcpState::Established | TcpState::CloseWait => true,
        // Without unacknowledged payload, only the FIN is in flight.
        TcpState::FinWait1 | TcpState::LastAck | TcpState::Closing => has_unacked(),
        _ => false,
    }
}

/// Whether the peer has closed its direction: it repeats its FIN or DATA_FIN until this host's ACK arrives.
pub(super) fn has_peer_closed(state: TcpState) -> bool {
    matches!(state, TcpState::CloseWait | TcpState::Closing | TcpState::LastAck)
}

/// Whether data is in flight, or could not be sent because this host refused it (a firewall, no route): the kernel then tries again at timeouts.
pub(super) fn has_waiting_data(waiting: &Waiting) -> bool {
    waiting.in_flight > 0
        || (waiting.busy_since.is_some() && waiting.backoff > 0 && waiting.window >= MIN_WINDOW)
}

impl PathState {
    /// Time since which data waits: the last acknowledgement of data, or the sending of data in flight if that was later. `None`: unknown.
    pub(super) fn waits_since(&self, record: &SubflowRecord) -> Option<Nanos> {
        let waiting = &record.waiting;
        // The last ACK answered the last probe before the unanswered probes.
        let answered_at = waiting.last_ack.filter(|_| waiting.in_flight == 0 && waiting.probes > 0);
        self.acked_at.max(answered_at).max(waiting.busy_since.filter(|_| has_waiting_data(waiting)))
    }

    /// Evaluates the path at a tick. `is_limited`: MPTCP data waits for the peer's window. `is_frozen`: since the previous tick, nothing was
    /// acknowledged on any path, and the peer has not closed. Returns the evidence and, if the path has failed or recovered, time and event.
    pub(super) fn evaluate(
        &mut self,
        record: &SubflowRecord,
        is_limited: bool,
        is_frozen: bool,
        interval: Interval<'_>,
    ) -> (PathEvidence, Option<(Nanos, TimelineEvent)>) {
        if self.acked_at.is_none() || self.carried.0 != record.tcp.bytes_acked {
            self.acked_at = record.waiting.last_ack;
        }
        let is_known = record.waiting.last_ack.is_some();
        let is_closed = is_limited || (is_known && record.waiting.window < MIN_WINDOW);
        let backoff = record.waiting.backoff;
        // A peer with a closed window answers each probe and retransmission. A peer without memory drops data within its window;
        // its ACK counts as an answer only if no path makes progress and the peer sends neither data (even again) nor a FIN nor a larger window.
        let has_no_news = self.segments == record.tcp.data_segments_in
            && record.waiting.window <= self.window
            && !has_peer_closed(record.state);
        let before = self.answered.or(is_closed.then_some(Nanos(0)));
        let is_answered = before.is_some_and(|before| record.waiting.last_ack > Some(before + ACK_ERROR))
            && (is_closed || (is_frozen && has_no_news && backoff >= MIN_RETRANSMITTED));
        if is_answered {
            self.acked_at = record.waiting.last_ack;
        }
        (self.answered, self.window) = (record.waiting.last_ack, record.waiting.window);
        self.segments = record.tcp.data_segments_in;
        self.excused = if is_answered { backoff } else { self.excused.min(backoff) };
        let evidence = self.evidence(record, interval);
        let evidence = PathEvidence {
            is_busy: is_limited || record.waiting.busy_since.is_some(),
            is_window_closed: is_closed || (backoff > 0 && self.excused == backoff),
            backoff: backoff - self.excused,
            excused: self.excused,
            stays_failed: evidence.stays_failed && !is_answered,
            ..evidence
        };
        self.carried = (record.tcp.bytes_acked, record.tcp.bytes_received);
        (evidence, self.change(record, progress::of_path(&evidence), interval))
    }

    pub(super) fn evidence(&self, record: &SubflowRecord, interval: Interval<'_>) -> PathEvidence {
        let (waiting, tcp) = (&record.waiting, &record.tcp);
        let rto = progress::timeout(Nanos(tcp.srtt.0 * 1_000), Nanos(tcp.rttvar.0 * 1_000));
        let since = self.waits_since(record);
        let silent = since.map(|since| interval.suspensions.awake(since, interval.read_at(record)));
        let waits = silent.is_none_or(|silent| waiting.in_flight > 0 && silent >= rto);
        PathEvidence {
            in_flight: waiting.in_flight,
            probes: waiting.probes,
            rto,
            silent,
            has_moved: self.carried != (tcp.bytes_acked, tcp.bytes_received),
            // The kernel clears its stale mark some time after the acknowledgement of data, or when the socket closes.
            is_stale: record.stale && waits,
            stays_failed: self.failed.is_some_and(|failed| !is_over(record, failed)),
            ..PathEvidence::default()
        }
    }

    /// Applies the last counters of a path that has ended. Returns time and event if the path recovered after the previous tick.
    pub(super) fn end(&mut self, record: &SubflowRecord) -> Option<(Nanos, TimelineEvent)> {
        let at = record.waiting.last_ack?;
        self.failed.take_if(|(acked, last_ack)| record.tcp.bytes_acked > *acked && Some(at) > *last_ack)?;
        (self.progress, self.recovered) = (Progress::Idle, Some(at));
        Some((at, TimelineEvent::SubflowStale { subflow: record.id, stale: false, silent: None }))
    }

    /// Applies the state at a tick. Returns the time and the event if the path has failed or recovered.
    fn change(
        &mut self,
        record: &SubflowRecord,
        progress: Progress,
        interval: Interval<'_>,
    ) -> Option<(Nanos, TimelineEvent)> {
        let before = std::mem::replace(&mut self.progress, progress);
        let is_stuck = matches!(progress, Progress::Stalled | Progress::Failed);
        if before != progress || self.since.is_none() {
            let since = self.waits_since(record).filter(|_| is_stuck);
            self.since = since.or((!is_stuck || before != progress).then_some(interval.now));
        }
        let at = interval.read_at(record);
        let subflow = record.id;
        match (before == Progress::Failed, progress == Progress::Failed) {
            (false, true) => {
                let is_new = self.recovered.is_none_or(|since| at.since(since) >= MIN_RECOVERY);
                self.failures += u32::from(is_new);
                self.failed = Some((record.tcp.bytes_acked, record.waiting.last_ack));
                let since = self.waits_since(record);
                // The path failed before tracing began, so the time of the failure is unknown.
                if since.is_none() && record.created.is_none() && before == Progress::Idle {
                    self.since = None;
                    return None;
                }
                let silent = since.map(|since| at.since(since).micros());
                Some((at, TimelineEvent::SubflowStale { subflow, stale: true, silent }))
            }
            (true, false) => {
                (self.failed, self.recovered) = (None, Some(at));
                Some((at, TimelineEvent::SubflowStale { subflow, stale: false, silent: None }))
            }
            _ => None,
        }
    }
}

/// Whether the failure has ended: an acknowledgement has arrived on the path since the failure.
fn is_over(record: &SubflowRecord, (acked, last_ack): (Bytes, Option<Nanos>)) -> bool {
    let waiting = &record.waiting;
    let Some(latest) = waiting.last_ack else { return !record.stale };
    let is_answered = waiting.probes == 0 && last_ack.is_none_or(|before| latest > before + ACK_ERROR);
    record.tcp.bytes_acked > acked || (waiting.in_flight == 0 && is_answered)
}
