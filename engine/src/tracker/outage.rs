// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates the stalls, failed paths and outages of a connection once per tick.

use mpwatch_model::flow::outage::retransmission_timeout;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::kernel::event::{MIN_STALL, MIN_WINDOW};
use mpwatch_model::unit::{Bytes, Micros, Nanos};

use super::flow::Flow;
use super::path::{ACK_ERROR, Interval, has_peer_closed, has_waiting_data};
use super::socket::unacked_payload;
use super::stall::{self, SubflowStalls};
use super::subflow::SubflowState;
use super::suspension::Suspensions;
use crate::progress::{self, ConnectionEvidence, PathEvidence};

/// Data that the peer discarded while its window was closed is retransmitted within this time.
const LIMIT_ENDS: Nanos = Nanos(5_000_000_000);
/// A stall is judged by the retransmission timeout before it, or by that after it up to this limit.
const MAX_QUEUE: Micros = Micros(1_000_000);

impl Flow {
    pub(super) fn report_stalls(&mut self, suspensions: &Suspensions) {
        // After a fallback no DATA_ACK arrives. The BPF programs detect stalls from the progress of DATA_ACKs.
        if self.fell_back {
            return;
        }
        let stalls = self.subflows.iter().map(|subflow| SubflowStalls {
            stalls: &subflow.record.stalls,
            progress: subflow.record.progress,
            unacked: subflow.record.unacked,
            busy_since: subflow.record.waiting.busy_since,
            is_busy_unknown: subflow.record.waiting.last_ack.is_none(),
        });
        let stalls: Vec<SubflowStalls<'_>> = stalls.collect();
        let reported_until = self.stalls_until;
        for (from, to) in stall::of_connection(&stalls).into_iter().filter(|&(_, to)| to > reported_until) {
            // At the last evaluation, the data had waited since the start of a known outage. A record may begin at other times: earlier if the last
            // DATA_ACK of a burst came late, later if the peer's retransmissions counted as progress. The subflows keep few stalls: if the record
            // begins after the last evaluation, the record of the known outage was overwritten, and the outage ended before.
            let (evaluated_at, delivered_at) = (self.evaluated_at, self.delivered_at);
            let waited = self.outage_since.filter(|since| *since < to && from <= evaluated_at);
            // Undelivered data is dated by a tick, so an earlier record is more precise.
            let waited = waited.map(|since| if since == delivered_at { since.min(from) } else { since });
            if let Some(since) =
                self.outage_since.take_if(|since| *since + MIN_STALL <= from && from > evaluated_at)
            {
                self.end_outage(since, from, suspensions);
            }
            let was_outage = waited.is_some();
            let mut from = waited.unwrap_or(from).max(self.stalls_until);
            self.stalls_until = to;
            // While the peer's window was closed, and until the data that the peer discarded is retransmitted, data did not wait for a path.
            if from <= self.limited_until && self.limited_since <= to {
                from = self.limited_at + LIMIT_ENDS;
            }
            let gap = suspensions.awake(from, to);
            if gap >= MIN_STALL {
                self.timeline.traced(from, self.stall(gap.micros(), was_outage));
            }
        }
    }

    /// Evaluates the states of the paths, and whether the connection is in an outage.
    pub(super) fn evaluate_progress(&mut self, ticks: Interval<'_>) {
        let (now, is_open) = (ticks.now, self.closed_at().is_none());
        // An idle connection is not evaluated, and no data waits.
        if (1..ticks.previous.0).contains(&self.evaluated_at.0) {
            self.calm_at = ticks.previous;
        }
        self.evaluated_at = now;
        let msk = self.msk.as_ref().filter(|msk| !msk.fallback);
        let [unacked, unsent] = msk.map_or([Bytes(0); 2], |msk| [unacked_payload(msk), msk.unsent]);
        let window = msk.and_then(|msk| msk.window);
        let is_limited = unsent > Bytes(0) && window.is_some_and(|window| window < MIN_WINDOW);
        let paths = self.evaluate_paths(is_open, is_limited, ticks);
        let msk = self.msk.as_ref().filter(|msk| !msk.fallback);
        // If all paths have failed, the last window that the peer announced is outdated.
        let is_window_closed = paths.iter().any(|(_, path)| *path == Progress::LimitedByReceiver);
        let is_answered =
            paths.iter().all(|(path, _)| path.probes == 0 && (path.in_flight == 0 || path.backoff == 0));
        if is_window_closed {
            if self.limited_at < ticks.previous {
                self.limited_since = ticks.previous;
            }
            (self.limited_at, self.limited_until) = (now, Nanos(u64::MAX));
        } else {
            self.limited_until = self.limited_until.min(now);
        }
        let has_data = match msk {
            Some(_) => unacked + unsent > Bytes(0),
            None => paths.iter().any(|(path, _)| path.in_flight > 0 || path.is_busy),
        };
        if !is_open || !has_data || (is_window_closed && is_answered) {
            self.calm_at = now;
        }
        let since = self.waits_since().map(|at| at.max(self.calm_at));
        let read_at = self.in_flight().map(|subflow| ticks.read_at(&subflow.record)).max().unwrap_or(now);
        let silent = since.map(|since| ticks.suspensions.awake(since, read_at)).unwrap_or_default();
        let acked = msk.and_then(|msk| msk.bytes).map(|bytes| bytes.acked);
        // Payload that was not unacknowledged at the previous tick has waited since an unknown time after it.
        let is_new = self.calm_at >= ticks.previous;
        if acked.is_none() || acked != self.delivered || unacked == Bytes(0) || is_new {
            (self.delivered, self.delivered_at) = (acked, now);
        }
        // After a receiver's pause, the kernel may send nothing until its retransmission timer expires.
        let delivered_at = self.delivered_at.max(self.calm_at).max(self.limited_at + LIMIT_ENDS);
        let answered = self.in_flight().filter_map(|subflow| subflow.record.waiting.last_ack).max();
        let unanswered = answered.map_or(silent, |at| ticks.suspensions.awake(at, read_at));
        let evidence = ConnectionEvidence {
            unacked,
            unsent,
            is_window_closed,
            was_window_closed: now.since(self.limited_at) < LIMIT_ENDS,
            is_tcp: msk.is_none(),
            silent,
            unanswered,
            undelivered: ticks.suspensions.awake(delivered_at, now),
        };
        let since = if progress::is_outage(&evidence, &paths) {
            since
        } else {
            progress::is_undelivered(&evidence).then_some(delivered_at)
        };
        self.report_outage(since.filter(|_| is_open), ticks);
        self.timeout = self.longest_timeout();
    }

    /// A stall that has ended, with the retransmission timeout by which it is judged. A queue may have filled during the stall, so the current timeout
    /// counts too, but only up to a limit: packets that waited for the end of an outage have long RTTs. `was_outage`: the live view showed an
    /// outage, and the stall must stay one.
    fn stall(&self, gap: Micros, was_outage: bool) -> TimelineEvent {
        let current = self.longest_timeout().map(|timeout| timeout.min(MAX_QUEUE));
        let most = if was_outage { gap } else { Micros(u64::MAX) };
        TimelineEvent::Stalled { gap, timeout: self.timeout.max(current).map(|timeout| timeout.min(most)) }
    }

    /// The longest retransmission timeout of the open subflows that have not failed. `None`: no RTT is known.
    fn longest_timeout(&self) -> Option<Micros> {
        let is_working = |subflow: &&SubflowState| {
            subflow.is_open_path()
                && subflow.path.progress != Progress::Failed
                && subflow.record.tcp.srtt.0 > 0
        };
        let timeout = |subflow: &SubflowState| {
            retransmission_timeout(subflow.record.tcp.srtt, subflow.record.tcp.rttvar)
        };
        self.subflows.iter().filter(is_working).map(timeout).max().or(self.timeout)
    }

    /// The state of each open path, with its evidence.
    fn evaluate_paths(
        &mut self,
        is_open: bool,
        is_limited: bool,
        ticks: Interval<'_>,
    ) -> Vec<(PathEvidence, Progress)> {
        let mut paths = Vec::new();
        let acked = self.subflows.iter().fold(Bytes(0), |sum, subflow| sum + subflow.record.tcp.bytes_acked);
        let is_frozen =
            self.acked == acked && !self.msk.as_ref().is_some_and(|msk| has_peer_closed(msk.state));
        self.acked = acked;
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.end.is_some()) {
            if let Some((at, event)) = subflow.path.end(&subflow.record) {
                self.timeline.sampled(at, event);
            }
        }
        for subflow in self.subflows.iter_mut().filter(|subflow| is_open && subflow.is_open_path()) {
            // The BPF programs skip an unchanged socket without data in flight (snapshot.bpf.c), so its record is current.
            if subflow.seen.is_current() || subflow.record.waiting.in_flight == 0 {
                let (evidence, change) = subflow.path.evaluate(&subflow.record, is_limited, is_frozen, ticks);
                paths.push((evidence, subflow.path.progress));
                if let Some((at, event)) = change {
                    self.timeline.sampled(at, event);
                }
            } else {
                // The socket was not listed, so its record may be out of date. The path keeps its state.
                paths.push((subflow.path.evidence(&subflow.record, ticks), subflow.path.progress));
            }
        }
        paths
    }

    /// `since`: start of the outage. `None`: the connection is not in an outage at this tick.
    fn report_outage(&mut self, since: Option<Nanos>, ticks: Interval<'_>) {
        let acked = self.acknowledgements().max().unwrap_or_default();
        // If data was acknowledged meanwhile, another outage has begun.
        let is_over = |known: &mut Nanos| since.is_none_or(|since| since.min(acked) > *known + ACK_ERROR);
        if let Some(since) = self.outage_since.take_if(is_over) {
            // The outage had not ended at the previous tick.
            let after = since.max(ticks.previous.since(ACK_ERROR));
            let acked = self.acknowledgements().filter(|acked| *acked > after).min();
            self.end_outage(since, acked.or(self.closed_at()).unwrap_or(ticks.now), ticks.suspensions);
        }
        self.outage_since = self.outage_since.or(since);
    }

    /// Times of the last acknowledgement of data on each subflow, including ended subflows.
    fn acknowledgements(&self) -> impl Iterator<Item = Nanos> {
        self.subflows.iter().filter_map(|subflow| subflow.path.acked_at)
    }

    /// Open subflows with data in flight, or with data that this host could not send.
    fn in_flight(&self) -> impl Iterator<Item = &SubflowState> {
        let has_data = |subflow: &&SubflowState| has_waiting_data(&subflow.record.waiting);
        self.subflows.iter().filter(|subflow| subflow.is_open_path()).filter(has_data)
    }

    /// Time since which data waits: the last acknowledgement, or the sending of the first data in flight if that was later. Failed paths
    /// count only if all paths with data in flight have failed. `None`: unknown.
    fn waits_since(&self) -> Option<Nanos> {
        let is_failed = |subflow: &SubflowState| subflow.path.progress == Progress::Failed;
        let all_failed = self.in_flight().all(is_failed);
        let waiting = self.in_flight().filter(|subflow| all_failed || !is_failed(subflow));
        self.acknowledgements()
            .max()
            .max(waiting.filter_map(|subflow| subflow.record.waiting.busy_since).min())
    }

    /// Adds an outage that has ended to the timeline, unless the timeline already has it as a stall that a subflow recorded.
    fn end_outage(&mut self, from: Nanos, to: Nanos, suspensions: &Suspensions) {
        let gap = suspensions.awake(from, to);
        if self.stalls_until <= from && gap >= MIN_STALL {
            self.timeline.sampled(from, self.stall(gap.micros(), true));
            self.stalls_until = to;
        }
    }

    /// Whether the state of this connection may change although none of its records changes.
    pub(super) fn is_waiting(&self) -> bool {
        let open = || self.subflows.iter().filter(|subflow| subflow.is_open_path());
        let is_failed = |subflow: &SubflowState| subflow.path.progress == Progress::Failed;
        let has_data = self.msk.as_ref().is_some_and(|msk| (msk.unacked + msk.unsent).0 > 0);
        let waits = self.in_flight().next().is_some() || has_data;
        self.outage_since.is_some()
            || self.in_flight().any(|subflow| !is_failed(subflow))
            || (waits && open().all(is_failed))
    }
}
