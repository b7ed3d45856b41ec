// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merges the records that several runs have written of one connection.

use std::cmp::max_by_key;
use std::mem::discriminant;
use std::sync::Arc;

use jiff::Timestamp;
use mpwatch_model::flow::bottleneck::{Bottlenecks, Verdict, groups};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::subflow::{Closed, Retransmits, Scheduler, Subflow};
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::host::energy::FlowEnergy;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason};
use mpwatch_model::settle;
use mpwatch_model::unit::{Bytes, Nanos};
use mpwatch_model::why::answer::Cause;

use crate::schema::columns::Columns as _;
use crate::schema::record::whole_nanos;
use crate::schema::values::{nanos, timestamp};

/// Maximum difference between the times that two runs give an event, nanoseconds. Each run has probes of its own: 3 to 40 us were measured.
const SAME_EVENT_NS: u64 = 1_000_000;
/// The same for events that each run finds at its next sample: the default interval.
const SAME_SAMPLED_NS: u64 = 1_000_000_000;

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
        // A recording may be imported after a later run. A record with the end of the connection is later than one without.
        let is_later =
            (current.closed_at.is_some(), until_ns) >= (self.connection.closed_at.is_some(), self.until_ns);
        let first_ns = current.opened_at.map_or(until_ns - whole_nanos(current.age_s), nanos);
        let opened_at = self.connection.opened_at.or(current.opened_at);
        let began_ns = opened_at.map_or(self.began_ns.min(first_ns), nanos);
        let earlier = aligned(&self.connection, self.began_ns, began_ns, current.closed_at);
        let current = aligned(current, first_ns, began_ns, self.connection.closed_at);
        let mut merged = connection(earlier, current.clone(), is_later, self.overlaps);
        if is_later && !self.overlaps {
            end_missing(&mut merged, &current, timestamp(self.until_ns));
            add_ends(&mut merged, &self.connection, &current, timestamp(first_ns));
        }
        let last_ns = merged.closed_at.map_or(until_ns.max(self.until_ns), nanos);
        merged.age_s = (last_ns - began_ns).max(0) as f64 / 1e9;
        (settle::settled(merged), timestamp(last_ns))
    }
}

/// The record of a run that began at `from_ns`, to be merged into a record that begins at `began_ns`. `closed_at`: end of the connection as
/// observed by the other run. If the run began later, it observed only the last subflows of a closed connection.
fn aligned(record: &Connection, from_ns: i64, began_ns: i64, closed_at: Option<Timestamp>) -> Connection {
    let mut record = record.clone();
    let late = Nanos((from_ns - began_ns).max(0).unsigned_abs()).micros();
    if let Some(found) = &mut record.bottlenecks {
        let pairs = found.pairs.iter_mut().filter_map(|pair| pair.since.as_mut());
        pairs.chain(found.shared_caps.iter_mut().map(|cap| &mut cap.since)).for_each(|since| *since += late);
    }
    if closed_at.is_some_and(|closed_at| nanos(closed_at) <= from_ns) {
        record.observed = None;
        record.subflows.iter_mut().for_each(|subflow| subflow.observed = Observed::default());
    }
    record
}

/// A known later value replaces an earlier value: counters of the kernel are totals over the life of a connection, but only the
/// earlier run may have observed some times and names. Each run has a part of what mpwatch counts (tests/fields.rs).
fn connection(stored: Connection, current: Connection, is_later: bool, overlaps: bool) -> Connection {
    let subflows = subflows(&stored.subflows, &current.subflows, is_later, overlaps);
    let (old, new) = if is_later { (stored, current) } else { (current, stored) };
    let mut merged = new.clone();
    merged.fill_unknown(&old);
    // `None` is a known value: there is no outage.
    merged.outage_since = new.outage_since;
    merged.cause = cause(&old, &new);
    merged.observed = both(old.observed, new.observed, |old, new| observed(old, new, overlaps));
    // The addresses of the initial subflow, which may have ended before the later run.
    (merged.local, merged.remote) = (old.local.or(new.local), old.remote.or(new.remote));
    merged.opened_at = old.opened_at.or(new.opened_at);
    merged.seen_open = merged.opened_at.is_some();
    merged.fallback = known(old.fallback, new.fallback, |found| found.reason != FallbackReason::Unknown);
    // A run that began after the end dates the end of the last subflow.
    merged.closed_at = old.closed_at.or(new.closed_at);
    merged.timeline = merged_timeline(&old, &new);
    merged.bottlenecks = both(old.bottlenecks, new.bottlenecks, |old, new| verdicts(old, new, &subflows));
    // A later run does not know the subflows that ended before it, so only the merged subflows have sent all that was reinjected.
    let dropped = merged.dropped_subflows.iter().map(|dropped| dropped.observed.bytes_sent);
    let sent: Bytes = subflows.iter().map(Subflow::unique_sent).chain(dropped).sum();
    let total = |known: Bytes| known.max(sent.since(merged.bytes_sent.unwrap_or(sent)));
    if subflows.len() > 1 {
        merged.bytes_reinjected = merged.bytes_reinjected.map(total);
    }
    Connection { subflows, ..merged }
}

/// The cause of the later run, or the earlier one if it still applies. A cause is never put together from two.
fn cause(old: &Connection, new: &Connection) -> Option<Arc<Cause>> {
    let still_applies = old.fallback.is_some() == new.fallback.is_some()
        && [old, new].iter().all(|run| {
            run.second_path.is_none() && run.subflows.iter().filter(|tcp| tcp.is_path()).count() < 2
        });
    new.cause.clone().or_else(|| old.cause.clone().filter(|_| still_applies))
}

/// The earlier value, unless its reason is unknown.
fn known<T: Copy>(old: Option<T>, new: Option<T>, is_known: fn(&T) -> bool) -> Option<T> {
    old.filter(is_known).or(new).or(old)
}

fn is_observed(closed: &Closed) -> bool {
    closed.reason != CloseReason::Unobserved
}

fn find<'a>(subflows: &'a [Subflow], wanted: &Subflow) -> Option<&'a Subflow> {
    subflows.iter().find(|subflow| subflow.id == wanted.id)
}

/// Merges subflows in the order of the row. New subflows follow; their places continue after the last one.
fn subflows(stored: &[Subflow], current: &[Subflow], is_later: bool, overlaps: bool) -> Vec<Subflow> {
    let last = stored.iter().map(|stored| stored.place).max().unwrap_or(0);
    let known = stored.iter().map(|stored| match find(current, stored) {
        Some(found) if is_later => Subflow { place: stored.place, ..subflow(stored, found, overlaps) },
        Some(found) => Subflow { place: stored.place, ..subflow(found, stored, overlaps) },
        None => stored.clone(),
    });
    let added = current.iter().filter(|found| find(stored, found).is_none()).map(|found| {
        let before =
            current.iter().filter(|known| known.place < found.place && find(stored, known).is_some());
        Subflow {
            place: before.fold(last.saturating_add(found.place), |place, _| place.saturating_sub(1)),
            ..found.clone()
        }
    });
    known.chain(added).collect()
}

fn subflow(old: &Subflow, new: &Subflow, overlaps: bool) -> Subflow {
    let (more, fewer) = if old.rtt_samples > new.rtt_samples { (old, new) } else { (new, old) };
    let count: fn(u32, u32) -> u32 = if overlaps { Ord::max } else { u32::saturating_add };
    let rounds: fn(u64, u64) -> u64 = if overlaps { Ord::max } else { u64::saturating_add };
    let mut merged = new.clone();
    // The later run subtracted only the refused bytes that it counted itself.
    let refused = if overlaps { Bytes(0) } else { old.bytes_refused };
    merged.bytes_sent = new.bytes_sent.since(refused);
    merged.bytes_retransmitted = new.bytes_retransmitted.since(refused);
    merged.fill_unknown(old);
    Subflow {
        bytes_refused: merged.bytes_refused.max(refused + new.bytes_refused),
        retransmits: both(old.retransmits, new.retransmits, |old, new| Retransmits {
            fast: count(old.fast, new.fast),
            timeout: count(old.timeout, new.timeout),
            probe: count(old.probe, new.probe),
        }),
        timeouts: old.timeouts.max(new.timeouts),
        progress_since: new.progress_since,
        rtt_p50: more.rtt_p50.or(fewer.rtt_p50),
        rtt_p99: more.rtt_p99.or(fewer.rtt_p99),
        rtt_samples: more.rtt_samples,
        segments_retransmitted: old.segments_retransmitted.max(new.segments_retransmitted),
        lost_segments: old.lost_segments.max(new.lost_segments),
        scheduler: both(old.scheduler, new.scheduler, |old, new| Scheduler {
            considered: rounds(old.considered, new.considered),
            picked: rounds(old.picked, new.picked),
        }),
        busy: both(old.busy, new.busy, |a, b| if overlaps { a.max(b) } else { a + b }),
        cpu: both(old.cpu, new.cpu, |a, b| if overlaps { a.max(b) } else { a + b }),
        energy: both(old.energy, new.energy, |a, b| energy(a, b, overlaps)),
        observed: observed(old.observed, new.observed, overlaps),
        closed: known(old.closed.filter(is_observed), new.closed, |closed| {
            closed.reason != CloseReason::Unknown
        }),
        ..merged
    }
}

/// Merges verdicts by pair. After a restart, the samples of the earlier run are missing, so a verdict stays until a run decides otherwise.
fn verdicts(old: Bottlenecks, new: Bottlenecks, subflows: &[Subflow]) -> Bottlenecks {
    let is_found =
        new.pairs.iter().any(|pair| pair.verdict != Verdict::Unknown) || !new.shared_caps.is_empty();
    if old.method != new.method {
        return if is_found { new } else { old };
    }
    let mut pairs = new.pairs;
    for known in old.pairs {
        match pairs.iter_mut().find(|pair| (pair.a, pair.b) == (known.a, known.b)) {
            None => pairs.push(known),
            Some(pair) if pair.verdict == known.verdict => {
                pair.since = known.since.or(pair.since);
                pair.probability = pair.probability.or(known.probability);
                pair.evidence = pair.evidence.or(known.evidence);
            }
            Some(pair) if pair.verdict == Verdict::Unknown => *pair = known,
            Some(_) => {}
        }
    }
    let ids = subflows.iter().map(|subflow| subflow.id);
    let judged: Vec<_> = ids.filter(|id| pairs.iter().any(|pair| [pair.a, pair.b].contains(id))).collect();
    let groups = groups(&judged, pairs.iter().map(|pair| (pair.a, pair.b, pair.verdict, pair.probability)));
    let shared_caps = if is_found { new.shared_caps } else { old.shared_caps };
    Bottlenecks { method: new.method, groups, pairs, shared_caps }
}

/// Adds the values of runs that do not overlap, because these observed different parts of the connection.
fn observed(old: Observed, new: Observed, overlaps: bool) -> Observed {
    if overlaps { max_by_key(old, new, |part| part.duration) } else { old.plus(new) }
}

fn both<T>(old: Option<T>, new: Option<T>, merge: impl Fn(T, T) -> T) -> Option<T> {
    old.into_iter().chain(new).reduce(merge)
}

/// A run without energy counters adds no joules, so the sum is the measured part. If the idle power of a run is unknown, `active` of the sum is
/// unknown.
fn energy(old: FlowEnergy, new: FlowEnergy, overlaps: bool) -> FlowEnergy {
    match (old.full, new.full) {
        _ if overlaps => max_by_key(old, new, |part| part.cpu),
        (Some(_), None) => FlowEnergy { cpu: old.cpu + new.cpu, ..old },
        (None, Some(_)) => FlowEnergy { cpu: old.cpu + new.cpu, ..new },
        _ => FlowEnergy::sum([&old, &new]),
    }
}

/// A run that finds an open connection gives earlier events the time of its first sample. If `old` has such an event, its repetition is dropped.
fn merged_timeline(old: &Connection, new: &Connection) -> Vec<TimelineEntry> {
    use TimelineEvent::{AddressAnnounced, FellBack, PeerAddressAnnounced, PeerAddressRemoved, SubflowStale};
    let recovers = |id| new.subflows.iter().any(|now| now.id == id && has_carried(old, now));
    let (old, new) = (&old.timeline, &new.timeline);
    let is_failed =
        |id| old.iter().filter_map(|entry| mark(entry, id)).next_back().is_some_and(|(_, failed)| failed);
    // The first mark of the later run reports the failure that the earlier run observed last.
    let continues = |id, at| {
        new.iter().find_map(|entry| mark(entry, id)) == Some((at, true)) && is_failed(id) && !recovers(id)
    };
    let is_repeated = |entry: &TimelineEntry| {
        let is_kind = |other: &&TimelineEntry| discriminant(&other.event) == discriminant(&entry.event);
        let is_first = || new.iter().find(is_kind).is_some_and(|first| first.at == entry.at);
        let is_near = |known: &TimelineEntry| {
            let is_sampled = [known.source, entry.source].contains(&ObservedBy::Sampled);
            let tolerance_ns = if is_sampled { SAME_SAMPLED_NS } else { SAME_EVENT_NS };
            nanos(known.at).abs_diff(nanos(entry.at)) <= tolerance_ns
        };
        old.iter().filter(is_kind).any(|known| match (&known.event, &entry.event) {
            (
                SubflowStale { subflow, stale: true, .. },
                SubflowStale { subflow: id, stale: true, silent },
            ) => {
                let silent = silent.map_or(0, |silent| silent.0.cast_signed() * 1_000);
                subflow == id && (nanos(entry.at) - silent <= nanos(known.at) || continues(*id, entry.at))
            }
            (FellBack { .. }, _) => true,
            (TimelineEvent::Stalled { gap: a, .. }, TimelineEvent::Stalled { gap: b, .. }) => {
                // One stall ends at one time too.
                is_near(known) && a.0.abs_diff(b.0) <= SAME_SAMPLED_NS / 1_000
            }
            (AddressAnnounced { .. } | PeerAddressAnnounced { .. } | PeerAddressRemoved { .. }, event) => {
                known.event == *event && (is_near(known) || is_first())
            }
            (event, other) => event == other && is_near(known),
        })
    };
    let is_end = |entry: &TimelineEntry| entry.event == TimelineEvent::Closed;
    let end = old.iter().chain(new).filter(|entry| is_end(entry)).map(|entry| entry.at).min();
    let merged = old.iter().chain(new.iter().filter(|entry| !is_repeated(entry)));
    // A run that finds only a lingering subflow dates the end of the connection later.
    merged.filter(|entry| !is_end(entry) || Some(entry.at) == end).cloned().collect()
}

/// Ends the subflows that the later run did not find. `at`: when the earlier run last observed them.
fn end_missing(merged: &mut Connection, new: &Connection, at: Timestamp) {
    // A list that is not complete may lack a subflow that the later run has found.
    let is_complete = new.dropped_subflows.is_none();
    let is_missing =
        |now: &Subflow| is_complete && now.closed.is_none() && find(&new.subflows, now).is_none();
    let reason = CloseReason::Unobserved;
    for subflow in merged.subflows.iter_mut().filter(|subflow| is_missing(subflow)) {
        subflow.closed = Some(Closed { at, reason });
        let event = TimelineEvent::SubflowClosed { subflow: subflow.id, reason };
        merged.timeline.push(TimelineEntry { at, source: ObservedBy::Sampled, event });
    }
}

/// Adds the ends of failures and outages between two runs, for which no run has an event. `found_at`: when the later run found the connection.
fn add_ends(merged: &mut Connection, old: &Connection, new: &Connection, found_at: Timestamp) {
    let sampled = |at, event| TimelineEntry { at, source: ObservedBy::Sampled, event };
    let works = |now: &Subflow| TimelineEvent::SubflowStale { subflow: now.id, stale: false, silent: None };
    let recovered = new.subflows.iter().filter(|now| has_recovered(old, &merged.timeline, now));
    let recoveries: Vec<_> = recovered.map(|now| sampled(found_at, works(now))).collect();
    merged.timeline.extend(recoveries);
    let Some(since) = old.outage_since else { return };
    let stalls = new.timeline.iter().filter(|entry| matches!(entry.event, TimelineEvent::Stalled { .. }));
    let next = stalls.map(|entry| entry.at).chain(new.outage_since).min();
    let acked = |flow: &Connection| flow.subflows.iter().map(|subflow| subflow.bytes_acked).sum::<Bytes>();
    let until = |end| Nanos((nanos(end) - nanos(since)).max(0).unsigned_abs());
    // The later run may date an outage that continues by its own start.
    let is_start = |next| (0..=SAME_SAMPLED_NS.cast_signed()).contains(&(nanos(next) - nanos(found_at)));
    let is_same = |next: &Timestamp| {
        acked(merged) == acked(old) || until(*next).0 <= SAME_SAMPLED_NS || is_start(*next)
    };
    let Some(next) = next.filter(is_same) else {
        let gap = until(next.unwrap_or(found_at).min(found_at)).micros();
        merged.timeline.push(sampled(since, TimelineEvent::Stalled { gap, timeout: None }));
        return;
    };
    if new.outage_since == Some(next) {
        merged.outage_since = Some(since.min(next));
    }
    for entry in merged.timeline.iter_mut().filter(|entry| entry.at == next) {
        if let TimelineEvent::Stalled { gap, .. } = &mut entry.event {
            (entry.at, *gap) = (since.min(next), *gap + until(next).micros());
        }
    }
}

/// Whether a path that had failed in the earlier run has worked since, although no event of `timeline` reports its recovery.
fn has_recovered(old: &Connection, timeline: &[TimelineEntry], now: &Subflow) -> bool {
    let mark = |entry| mark(entry, now.id);
    let Some((failed_at, true)) = old.timeline.iter().filter_map(mark).next_back() else { return false };
    let (carried, waited) = (has_carried(old, now), find(&old.subflows, now).is_some_and(waits));
    match timeline.iter().filter_map(mark).find(|(at, _)| *at > failed_at) {
        Some((_, has_failed_again)) => has_failed_again && carried,
        None => now.progress != Progress::Failed && (carried || now.progress == Progress::Working && !waited),
    }
}

/// When a path failed (`true`) or worked again, if the entry reports this.
fn mark(entry: &TimelineEntry, id: SubflowId) -> Option<(Timestamp, bool)> {
    match entry.event {
        TimelineEvent::SubflowStale { subflow, stale, .. } if subflow == id => Some((entry.at, stale)),
        _ => None,
    }
}

/// Whether payload of this host waits for an ACK. Only the ACK then shows that the path works, because the direction from the peer may work alone.
fn waits(subflow: &Subflow) -> bool {
    subflow.bytes_sent.since(subflow.bytes_retransmitted) > subflow.bytes_acked
}

/// Whether a path has carried payload since the earlier run.
fn has_carried(old: &Connection, now: &Subflow) -> bool {
    let carried = |before: &Subflow| {
        let received = !waits(before) && now.bytes_received > before.bytes_received;
        now.bytes_acked > before.bytes_acked || received
    };
    find(&old.subflows, now).is_some_and(carried)
}
