// SPDX-License-Identifier: MIT OR Apache-2.0
//! Path failures and outages, derived from the timeline of a connection.

use jiff::Timestamp;

use crate::connection::Connection;
use crate::lifecycle::CloseReason;
use crate::subflow::Subflow;
use crate::timeline::TimelineEvent;
use crate::unit::Micros;

/// Maximum time between the failure of a path and its detection by the kernel, nanoseconds.
const MAX_NOTICE_DELAY: i128 = 3_000_000_000;
/// Maximum gap between two stalls of one outage, nanoseconds: hardly anything is carried in it.
const MAX_GAP_IN_OUTAGE: i128 = 250_000_000;
/// Maximum time from a reset to the end of the connection that it ended, nanoseconds.
const SAME_END: i128 = 100_000_000;

/// The failure of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFailure {
    /// Start of the first stall within 3 s before the failure was noticed; without a stall, `noticed`.
    pub at: Timestamp,
    /// When the kernel marked the subflow stale or it ended with a failure, whichever came first.
    pub noticed: Timestamp,
}

/// When a subflow's path failed. `None`: it did not fail, or no event says when.
pub fn path_failure(connection: &Connection, subflow: &Subflow) -> Option<PathFailure> {
    let noticed = noticed(connection, subflow)?;
    let stalls =
        connection.timeline.iter().filter(|entry| matches!(entry.event, TimelineEvent::Stalled { .. }));
    let is_near =
        |at: &Timestamp| (0..=MAX_NOTICE_DELAY).contains(&(noticed.as_nanosecond() - at.as_nanosecond()));
    let at = stalls.map(|entry| entry.at).find(is_near).unwrap_or(noticed);
    Some(PathFailure { at, noticed })
}

fn noticed(connection: &Connection, subflow: &Subflow) -> Option<Timestamp> {
    let ended = subflow.closed.filter(|closed| closed.reason.is_failure()).map(|closed| closed.at);
    let stale = connection.timeline.iter().rev().find_map(|entry| match entry.event {
        TimelineEvent::SubflowStale { subflow: id, stale: true } if id == subflow.id => Some(entry.at),
        _ => None,
    });
    // A subflow that works again has not failed.
    let stale = stale.filter(|_| ended.is_some() || subflow.stale);
    stale.into_iter().chain(ended).min()
}

/// Whether the path of a subflow failed before the connection ended.
pub fn has_failed(connection: &Connection, subflow: &Subflow) -> bool {
    let is_stale = subflow.stale && subflow.closed.is_none();
    !closed_with_connection(connection, subflow) && (is_stale || path_failure(connection, subflow).is_some())
}

/// Whether the reset of this subflow ended the whole connection, so that its path has not failed.
pub fn closed_with_connection(connection: &Connection, subflow: &Subflow) -> bool {
    let (Some(end), Some(closed)) = (connection.closed_at, subflow.closed) else { return false };
    let by_reset = matches!(closed.reason, CloseReason::ResetSent | CloseReason::ResetReceived);
    by_reset && end.as_nanosecond() - closed.at.as_nanosecond() < SAME_END
}

/// Stalls of the connection that follow each other closely: what an application notices of a path failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start of the first stall.
    pub from: Timestamp,
    /// From there to the end of the last stall.
    pub duration: Micros,
    /// Sum of the stalls.
    pub stalled: Micros,
    /// Number of stalls.
    pub stalls: usize,
}

impl Outage {
    fn end(&self) -> i128 {
        self.from.as_nanosecond() + i128::from(self.duration.0) * 1_000
    }

    fn contains(&self, at: Timestamp) -> bool {
        (self.from.as_nanosecond()..=self.end()).contains(&at.as_nanosecond())
    }
}

/// All outages of a connection, in order.
pub fn outages(connection: &Connection) -> Vec<Outage> {
    let mut outages: Vec<Outage> = Vec::new();
    for entry in &connection.timeline {
        let TimelineEvent::Stalled { gap } = entry.event else { continue };
        match outages.last_mut().filter(|last| entry.at.as_nanosecond() - last.end() <= MAX_GAP_IN_OUTAGE) {
            Some(last) => {
                let end = (entry.at.as_nanosecond() + i128::from(gap.0) * 1_000).max(last.end());
                let duration = (end - last.from.as_nanosecond()) / 1_000;
                last.duration = Micros(u64::try_from(duration).unwrap_or(u64::MAX));
                last.stalled = Micros(last.stalled.0.saturating_add(gap.0));
                last.stalls += 1;
            }
            None => outages.push(Outage { from: entry.at, duration: gap, stalled: gap, stalls: 1 }),
        }
    }
    outages
}

/// The longest outage in which a path failed; without a path failure the longest of all.
pub fn main_outage(connection: &Connection, outages: &[Outage]) -> Option<Outage> {
    let subflows = connection.subflows.iter().filter(|subflow| !closed_with_connection(connection, subflow));
    let failures: Vec<PathFailure> =
        subflows.filter_map(|subflow| path_failure(connection, subflow)).collect();
    let has_failure = |outage: &&Outage| failures.iter().any(|failure| outage.contains(failure.at));
    let with_failure = outages.iter().filter(has_failure).max_by_key(|outage| outage.duration);
    with_failure.or_else(|| longest(outages)).copied()
}

/// The longest of some outages.
pub fn longest(outages: &[Outage]) -> Option<&Outage> {
    outages.iter().max_by_key(|outage| outage.duration)
}
