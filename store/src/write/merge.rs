// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merges the records that several runs have written of one connection.

use std::mem::discriminant;

use jiff::Timestamp;
use mpwatch_model::flow::connection::{Connection, Fallback, SecondPath};
use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::subflow::{Scheduler, Subflow};
use mpwatch_model::flow::timeline::{TimelineEntry, TimelineEvent};
use mpwatch_model::host::energy::FlowEnergy;
use mpwatch_model::kernel::lifecycle::FallbackReason;
use mpwatch_model::settle;

use crate::schema::columns::Columns as _;
use crate::schema::record::whole_nanos;
use crate::schema::values::{nanos, timestamp};

/// The row of a connection that earlier runs observed.
#[derive(Clone)]
pub(crate) struct EarlierRecord {
    pub(crate) connection: Connection,
    /// When it was opened or first observed, in nanoseconds since 1970.
    pub(crate) began_ns: i64,
    /// When it closed or was last observed.
    pub(crate) until_ns: i64,
    /// Whether the runs overlap in time. Both have then counted the same data, so their counts are not added.
    pub(crate) overlaps: bool,
    /// Number of runs that observed the connection, including the current run.
    pub(crate) runs: i64,
}

impl EarlierRecord {
    /// Adds `by_ns` to all times.
    pub(crate) fn shift(&mut self, by_ns: i64) {
        self.connection.shift(by_ns);
        self.began_ns = self.began_ns.saturating_add(by_ns);
        self.until_ns = self.until_ns.saturating_add(by_ns);
    }

    /// The record of all runs, and when the connection closed or was last observed.
    pub(crate) fn merge(&self, current: &Connection, seen_at: Timestamp) -> (Connection, Timestamp) {
        let until_ns = nanos(current.closed_at.unwrap_or(seen_at));
        // A recording may be imported after a later run.
        let is_later = match (self.connection.closed_at, current.closed_at) {
            (None, Some(_)) => true,
            (Some(_), None) => false,
            _ => until_ns >= self.until_ns,
        };
        let (old, new) = if is_later { (&self.connection, current) } else { (current, &self.connection) };
        let mut merged = connection(old, new, self.overlaps);
        let last_ns = if is_later { until_ns } else { self.until_ns };
        let first_ns = self.began_ns.min(until_ns - whole_nanos(current.age_s));
        let began_ns = merged.opened_at.map_or(first_ns, nanos);
        merged.age_s = (last_ns - began_ns).max(0) as f64 / 1e9;
        (settle::settled(merged), timestamp(last_ns))
    }
}

/// A known later value replaces an earlier value: counters of the kernel are totals over the life of a connection, but only the
/// earlier run may have observed some times and names. mpwatch counts CPU time, energy and scheduler rounds, so each run has a part of them.
fn connection(old: &Connection, new: &Connection, overlaps: bool) -> Connection {
    let mut merged = new.clone();
    merged.fill_unknown(old);
    // `None` is a known value: there is no outage.
    merged.outage_since = new.outage_since;
    merged.subflows = subflows(&old.subflows, &new.subflows, overlaps);
    merged.observed = both(old.observed, new.observed, |old, new| observed(old, new, overlaps));
    // The addresses of the initial subflow, which may have ended before the later run.
    (merged.local, merged.remote) = (old.local.or(new.local), old.remote.or(new.remote));
    merged.opened_at = old.opened_at.or(new.opened_at);
    merged.seen_open = merged.opened_at.is_some();
    merged.fallback = fallback(old.fallback, new.fallback);
    merged.second_path = both(old.second_path, new.second_path, |old, new| SecondPath {
        after: old.after,
        after_bytes: old.after_bytes.or(new.after_bytes),
        effective_after_bytes: old.effective_after_bytes.or(new.effective_after_bytes),
    });
    merged.bottlenecks = new.bottlenecks.clone().or_else(|| old.bottlenecks.clone());
    merged.timeline = merged_timeline(&old.timeline, &new.timeline);
    merged
}

fn fallback(old: Option<Fallback>, new: Option<Fallback>) -> Option<Fallback> {
    old.filter(|old| old.reason != FallbackReason::Unknown).or(new).or(old)
}

fn find<'a>(subflows: &'a [Subflow], wanted: &Subflow) -> Option<&'a Subflow> {
    subflows.iter().find(|subflow| subflow.id == wanted.id)
}

/// Merges subflows in the order of the earlier run. New subflows follow; their places continue after the last one.
fn subflows(old: &[Subflow], new: &[Subflow], overlaps: bool) -> Vec<Subflow> {
    let known =
        old.iter().map(|old| find(new, old).map_or_else(|| old.clone(), |new| subflow(old, new, overlaps)));
    let (both, added): (Vec<_>, Vec<_>) = new.iter().partition(|new| find(old, new).is_some());
    let last = old.iter().map(|old| old.place).max().unwrap_or(0);
    let after = last.saturating_sub(u32::try_from(both.len()).unwrap_or(0));
    let added = added.into_iter().map(|new| Subflow { place: new.place + after, ..new.clone() });
    known.chain(added).collect()
}

fn subflow(old: &Subflow, new: &Subflow, overlaps: bool) -> Subflow {
    let (more, fewer) = if old.rtt_samples > new.rtt_samples { (old, new) } else { (new, old) };
    let mut merged = new.clone();
    merged.fill_unknown(old);
    Subflow {
        place: old.place,
        progress_since: new.progress_since,
        rtt_p50: more.rtt_p50.or(fewer.rtt_p50),
        rtt_p99: more.rtt_p99.or(fewer.rtt_p99),
        rtt_samples: more.rtt_samples,
        segments_retransmitted: old.segments_retransmitted.max(new.segments_retransmitted),
        lost_segments: old.lost_segments.max(new.lost_segments),
        scheduler: both(old.scheduler, new.scheduler, |a, b| scheduler(a, b, overlaps)),
        cpu: both(old.cpu, new.cpu, |a, b| if overlaps { a.max(b) } else { a + b }),
        energy: both(old.energy, new.energy, |a, b| energy(a, b, overlaps)),
        observed: observed(old.observed, new.observed, overlaps),
        ..merged
    }
}

/// Adds the values of runs that do not overlap, because these observed different parts of the connection.
fn observed(old: Observed, new: Observed, overlaps: bool) -> Observed {
    match overlaps {
        false => old.plus(new),
        true if old.duration > new.duration => old,
        true => new,
    }
}

fn both<T>(old: Option<T>, new: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (old, new) {
        (Some(old), Some(new)) => Some(merge(old, new)),
        (old, new) => old.or(new),
    }
}

fn scheduler(old: Scheduler, new: Scheduler, overlaps: bool) -> Scheduler {
    if overlaps {
        return if old.considered > new.considered { old } else { new };
    }
    Scheduler { considered: old.considered + new.considered, picked: old.picked + new.picked }
}

/// A run without energy counters adds no joules, so the sum is the measured part. If the idle power of a run is unknown, `active` of the sum is
/// unknown.
fn energy(old: FlowEnergy, new: FlowEnergy, overlaps: bool) -> FlowEnergy {
    match (old.full, new.full) {
        _ if overlaps && old.cpu > new.cpu => old,
        _ if overlaps => new,
        (Some(_), None) => FlowEnergy { cpu: old.cpu + new.cpu, ..old },
        (None, Some(_)) => FlowEnergy { cpu: old.cpu + new.cpu, ..new },
        _ => FlowEnergy::sum([&old, &new]),
    }
}

/// A run that finds an open connection gives earlier events the time of its first sample. If `old` has such an event, its repetition is dropped.
fn merged_timeline(old: &[TimelineEntry], new: &[TimelineEntry]) -> Vec<TimelineEntry> {
    use TimelineEvent::{AddressAnnounced, FellBack, PeerAddressAnnounced, PeerAddressRemoved, SubflowStale};
    let is_repeated = |entry: &TimelineEntry| {
        let is_kind = |other: &&TimelineEntry| discriminant(&other.event) == discriminant(&entry.event);
        let is_first = || new.iter().find(is_kind).is_some_and(|first| first.at == entry.at);
        old.iter().any(|known| match (&known.event, &entry.event) {
            (
                SubflowStale { subflow, stale: true, .. },
                SubflowStale { subflow: id, stale: true, silent },
            ) => {
                let silent = silent.map_or(0, |silent| silent.0.cast_signed() * 1_000);
                subflow == id && nanos(entry.at) - silent <= nanos(known.at)
            }
            (FellBack { .. }, FellBack { .. }) => true,
            (AddressAnnounced { .. } | PeerAddressAnnounced { .. } | PeerAddressRemoved { .. }, event) => {
                known.event == *event && is_first()
            }
            _ => known == entry,
        })
    };
    old.iter().chain(new.iter().filter(|entry| !is_repeated(entry))).cloned().collect()
}
