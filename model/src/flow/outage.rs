// SPDX-License-Identifier: MIT OR Apache-2.0
//! Path failures and outages, derived from the timeline of a connection.

use std::time::Duration;

use jiff::Timestamp;

use crate::flow::connection::Connection;
use crate::flow::elimination::{EliminationAction, EliminationStep};
use crate::flow::subflow::Subflow;
use crate::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use crate::kernel::lifecycle::CloseReason;
use crate::unit::{Micros, Nanos};

/// Maximum time between the failure of a path and its detection by the kernel, nanoseconds.
const MAX_NOTICE_DELAY: i128 = 3_000_000_000;
/// Minimum length of a recovery that ends a failure, nanoseconds: the kernel clears its mark (`stale`) after a single acknowledgement.
const MIN_RECOVERY: i128 = 10_000_000_000;
/// Maximum gap between two stalls of one outage, nanoseconds: a shorter gap carries hardly any payload.
const MAX_GAP_IN_OUTAGE: i128 = 250_000_000;
/// Maximum time between a reset and the end of the connection that the reset ended.
pub const SAME_END: Nanos = Nanos(100_000_000);
/// The kernel's minimum retransmission timeout (`TCP_RTO_MIN`).
const MIN_RTO: Micros = Micros(200_000);
/// Maximum part of a retransmission timeout for the variation of the RTT. In records without timeouts, a longer stall is an outage.
const MAX_VARIATION: Micros = Micros(2_000_000);

/// The failure of a path, from its first sign until the path works again for 10 s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathFailure {
    /// Time of the last acknowledgement, or of the sending of the data. If unknown, the start of the first stall of at least 200 ms (the
    /// minimum retransmission timeout) in the 3 s before `noticed`; without such a stall, `noticed`.
    pub at: Timestamp,
    /// When the path was found without acknowledgements, or the subflow ended with a failure, whichever came first.
    pub noticed: Timestamp,
    /// When the path recovered without failing again. `None`: it did not recover.
    pub recovered: Option<Timestamp>,
    /// Number of intervals in which the path failed. In between, it worked for less than 10 s.
    pub intervals: usize,
    /// Total length of the intervals before the latest.
    earlier: Micros,
    /// Start of the latest interval.
    latest: Timestamp,
}

impl PathFailure {
    /// Total time in which the path did not work, without the recoveries in between, if the latest interval ended at `end`.
    pub fn down(&self, end: Timestamp) -> Micros {
        let latest = u64::try_from(between(self.latest, end) / 1_000).unwrap_or_default();
        Micros(self.earlier.0.saturating_add(latest))
    }
}

/// The latest failure of a subflow's path, even if the path works again. `None`: the path did not fail, or no event reports the failure.
pub fn path_failure(connection: &Connection, subflow: &Subflow) -> Option<PathFailure> {
    path_failures(connection, subflow).pop()
}

/// All failures of a subflow's path, in order.
pub fn path_failures(connection: &Connection, subflow: &Subflow) -> Vec<PathFailure> {
    let mut failures: Vec<PathFailure> = Vec::new();
    for (at, sign) in signs(connection, subflow) {
        match (failures.last_mut(), sign) {
            (Some(last), Sign::Works) => last.recovered = last.recovered.or(Some(at)),
            (Some(last), Sign::Failed { silent })
                if last.recovered.is_none_or(|worked| between(worked, at) < MIN_RECOVERY) =>
            {
                if let Some(worked) = last.recovered.take() {
                    last.earlier = last.down(worked);
                    last.latest = start(connection, at, silent).max(worked);
                    last.intervals += 1;
                }
            }
            (_, Sign::Failed { silent }) => {
                let (at, noticed) = (start(connection, at, silent), at);
                let (recovered, intervals, earlier, latest) = (None, 1, Micros(0), at);
                failures.push(PathFailure { at, noticed, recovered, intervals, earlier, latest });
            }
            (None, Sign::Works) => {}
        }
    }
    failures
}

/// Sets `path_failures` of each subflow to the number of failures on the timeline, unless the tracker counted more failures.
#[must_use]
pub fn with_counts(mut connection: Connection) -> Connection {
    for index in 0..connection.subflows.len() {
        let failures = path_failures(&connection, &connection.subflows[index]).len();
        let counted = &mut connection.subflows[index].path_failures;
        *counted = (*counted).max(u32::try_from(failures).unwrap_or(u32::MAX));
    }
    connection
}

/// A sign that a path works or has failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Works,
    Failed {
        /// Time without acknowledgements before this sign. `None`: unknown.
        silent: Option<Micros>,
    },
}

/// Times at which a path was found to have failed or to work again, in order.
fn signs(connection: &Connection, subflow: &Subflow) -> Vec<(Timestamp, Sign)> {
    let marked = connection.timeline.iter().filter_map(|entry| match entry.event {
        TimelineEvent::SubflowStale { subflow: id, stale, silent } if id == subflow.id => {
            Some((entry.at, if stale { Sign::Failed { silent } } else { Sign::Works }))
        }
        _ => None,
    });
    // Recordings of earlier versions report a recovery when a closed socket loses the kernel's mark (`stale`). Such a recovery is ignored.
    let is_open = |at: &Timestamp| subflow.closed.is_none_or(|closed| *at < closed.at);
    let mut signs: Vec<(Timestamp, Sign)> =
        marked.filter(|(at, sign)| *sign != Sign::Works || is_open(at)).collect();
    let failed = subflow.closed.filter(|closed| closed.reason.is_failure());
    let is_expected = closed_with_connection(connection, subflow) || was_eliminated(connection, subflow);
    signs.extend(failed.filter(|_| !is_expected).map(|closed| (closed.at, Sign::Failed { silent: None })));
    signs.sort();
    signs
}

/// Whether mpwatch closed the subflow on purpose, as an extra subflow. If the kernel clears the socket's error, the close reason is a reset.
fn was_eliminated(connection: &Connection, subflow: &Subflow) -> bool {
    connection.timeline.iter().any(|entry| match &entry.event {
        TimelineEvent::Elimination(EliminationStep::Removed(removal)) => {
            removal.action == EliminationAction::Close && removal.removed.subflow == subflow.id
        }
        _ => false,
    })
}

/// Start of the failure. Stalls shorter than the minimum retransmission timeout are common on a busy host and do not indicate a failed
/// path. The query in docs/store.md computes the same start.
fn start(connection: &Connection, noticed: Timestamp, silent: Option<Micros>) -> Timestamp {
    if let Some(start) = silent.and_then(|silent| noticed.checked_sub(Duration::from_micros(silent.0)).ok()) {
        return start;
    }
    let is_long =
        |entry: &&TimelineEntry| matches!(entry.event, TimelineEvent::Stalled { gap, .. } if gap >= MIN_RTO);
    let is_near = |at: &Timestamp| (0..=MAX_NOTICE_DELAY).contains(&between(*at, noticed));
    connection.timeline.iter().filter(is_long).map(|entry| entry.at).find(is_near).unwrap_or(noticed)
}

/// Nanoseconds from `from` to `to`.
fn between(from: Timestamp, to: Timestamp) -> i128 {
    to.as_nanosecond() - from.as_nanosecond()
}

/// When the path of a subflow failed. `None`: it did not fail, or works again.
pub fn lasting_failure(connection: &Connection, subflow: &Subflow) -> Option<Timestamp> {
    let failure = path_failure(connection, subflow)?;
    failure.recovered.is_none().then_some(failure.at)
}

/// Whether the path of a subflow failed and has not recovered.
pub fn has_failed(connection: &Connection, subflow: &Subflow) -> bool {
    subflow.is_failed() || lasting_failure(connection, subflow).is_some()
}

/// Whether the reset of this subflow ended the whole connection, or came after its end. Such a reset does not indicate a failed path.
pub fn closed_with_connection(connection: &Connection, subflow: &Subflow) -> bool {
    let (Some(end), Some(closed)) = (connection.closed_at, subflow.closed) else { return false };
    let with_end = is_same_end(between(closed.at, end)) || ended_all(connection, closed.at);
    is_reset(closed.reason) && !subflow.is_failed() && with_end
}

/// Whether this host removed the last subflow of an open connection, or all of them at once: the connection can no longer carry data, and
/// the kernel ends it after `net.mptcp.close_timeout`.
pub fn removed_with_connection(connection: &Connection, subflow: &Subflow) -> bool {
    let (Some(end), Some(closed)) = (connection.closed_at, subflow.closed) else { return false };
    closed.reason == CloseReason::RemovedByAdmin && closed.at <= end && ended_all(connection, closed.at)
}

/// Whether all subflows that were open at this time were reset or removed then. That ended the connection, even if its socket closed later.
fn ended_all(connection: &Connection, at: Timestamp) -> bool {
    let mut ends = connection.subflows.iter().map(|subflow| subflow.closed);
    ends.all(|closed| {
        closed.is_some_and(|closed| {
            let was_closed = !is_same_end(between(closed.at, at));
            let ended = is_reset(closed.reason) || closed.reason == CloseReason::RemovedByAdmin;
            was_closed || (ended && is_same_end(between(at, closed.at)))
        })
    })
}

/// Whether a subflow was reset well after the connection had closed normally. Its path may have failed, which only the sender notices.
pub fn closed_late(connection: &Connection, subflow: &Subflow) -> bool {
    is_reset_late(connection, subflow) && closed_normally(connection) && !has_failed(connection, subflow)
}

/// Whether a subflow was reset well after the end of the connection.
pub fn is_reset_late(connection: &Connection, subflow: &Subflow) -> bool {
    let (Some(end), Some(closed)) = (connection.closed_at, subflow.closed) else { return false };
    is_reset(closed.reason) && !is_same_end(between(end, closed.at))
}

/// Whether a subflow of the connection was closed with a FIN, so that no reset ended the connection.
pub fn closed_normally(connection: &Connection) -> bool {
    let mut ends = connection.subflows.iter().filter_map(|subflow| subflow.closed);
    ends.any(|closed| closed.reason == CloseReason::Fin)
}

fn is_same_end(nanos: i128) -> bool {
    nanos < i128::from(SAME_END.0)
}

fn is_reset(reason: CloseReason) -> bool {
    matches!(reason, CloseReason::ResetSent | CloseReason::ResetReceived)
}

/// Stalls of the connection in close succession. The outage is the part of a path failure that an application notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start of the first stall.
    pub from: Timestamp,
    /// Time from `from` to the end of the last stall.
    pub duration: Micros,
    /// Sum of the stalls.
    pub stalled: Micros,
    /// Number of stalls.
    pub stalls: usize,
    /// Whether the outage had not ended when the connection was read.
    pub lasts: bool,
    /// Whether a stall lasted for a retransmission timeout.
    is_long: bool,
}

impl Outage {
    /// End of the last stall.
    pub fn until(&self) -> Timestamp {
        Timestamp::from_nanosecond(self.end()).unwrap_or(Timestamp::MAX)
    }

    fn end(&self) -> i128 {
        self.from.as_nanosecond() + i128::from(self.duration.0) * 1_000
    }

    /// Whether one of these failures began in the outage.
    fn has_one_of(&self, failures: &[PathFailure]) -> bool {
        let range = self.from.as_nanosecond()..=self.end();
        failures.iter().any(|failure| range.contains(&failure.at.as_nanosecond()))
    }
}

/// All outages of a connection, in order. Each has not ended yet, contains the start of a path failure, or has a stall of at least a
/// retransmission timeout. Shorter stalls are common on a busy host.
pub fn outages(connection: &Connection) -> Vec<Outage> {
    let mut outages = merged_stalls(connection);
    if outages.is_empty() {
        return outages;
    }
    let failures = failures(connection);
    outages.retain(|outage| outage.lasts || outage.is_long || outage.has_one_of(&failures));
    outages
}

/// Whether this event is a failure. A stall is a failure if it is part of one of these outages of the connection.
pub fn is_failure(outages: &[Outage], entry: &TimelineEntry) -> bool {
    let is_in =
        |outage: &Outage| (outage.from.as_nanosecond()..=outage.end()).contains(&entry.at.as_nanosecond());
    match entry.event {
        TimelineEvent::Stalled { .. } => outages.iter().any(is_in),
        _ => entry.event.is_failure(),
    }
}

/// The retransmission timeout (`srtt + max(4 rttvar, 200 ms)`) for this smoothed RTT and its variation.
pub fn retransmission_timeout(srtt: Micros, variation: Micros) -> Micros {
    let variation = variation.0.saturating_mul(4).clamp(MIN_RTO.0, MAX_VARIATION.0);
    Micros(srtt.0.saturating_add(variation))
}

/// The longest current retransmission timeout of the subflows.
fn current_timeout(connection: &Connection) -> Micros {
    let timeout =
        |subflow: &Subflow| Some(retransmission_timeout(subflow.srtt?, subflow.rttvar.unwrap_or_default()));
    let working = connection.subflows.iter().filter(|subflow| !subflow.is_failed());
    working.filter_map(timeout).max().unwrap_or(MIN_RTO)
}

fn failures(connection: &Connection) -> Vec<PathFailure> {
    connection.subflows.iter().flat_map(|subflow| path_failures(connection, subflow)).collect()
}

/// Merges stalls in close succession into outages. The last outage may not have ended. A stall of less than a round trip does not prolong an
/// outage: behind a long queue, acknowledgements arrive at such intervals.
fn merged_stalls(connection: &Connection) -> Vec<Outage> {
    let mut outages: Vec<Outage> = Vec::new();
    let current = current_timeout(connection).min(MAX_VARIATION);
    let ended = connection.timeline.iter().filter_map(|entry| match entry.event {
        TimelineEvent::Stalled { gap, timeout } => {
            Some((entry.at, gap, timeout.unwrap_or(current), false, entry.source))
        }
        _ => None,
    });
    let lasting = connection.outage_since.zip(connection.read_at()).and_then(|(since, now)| {
        let gap = u64::try_from(between(since, now) / 1_000).ok()?;
        Some((since, Micros(gap), current, true, ObservedBy::Sampled))
    });
    // A sampled stall ends up to one interval late, so the gap after it is unknown.
    let mut is_end_exact = true;
    for (at, gap, timeout, lasts, source) in ended.chain(lasting) {
        let is_exact = std::mem::replace(&mut is_end_exact, source == ObservedBy::Tracepoint);
        let can_prolong = is_exact && gap + MIN_RTO >= timeout;
        let near = |last: &&mut Outage| can_prolong && at.as_nanosecond() - last.end() <= MAX_GAP_IN_OUTAGE;
        let Some(last) = outages.last_mut().filter(near) else {
            let (duration, stalled, is_long) = (gap, gap, gap >= timeout);
            outages.push(Outage { from: at, duration, stalled, stalls: 1, lasts, is_long });
            continue;
        };
        let end = (at.as_nanosecond() + i128::from(gap.0) * 1_000).max(last.end());
        let duration = (end - last.from.as_nanosecond()) / 1_000;
        last.duration = Micros(u64::try_from(duration).unwrap_or(u64::MAX));
        last.stalled = Micros(last.stalled.0.saturating_add(gap.0));
        last.stalls += 1;
        last.lasts |= lasts;
        last.is_long |= gap >= timeout;
    }
    outages
}

/// The longest of these outages. `None`: there are no outages.
pub fn longest(outages: &[Outage]) -> Option<&Outage> {
    outages.iter().max_by_key(|outage| outage.duration)
}
