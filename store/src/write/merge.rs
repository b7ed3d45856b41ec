// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merges what several runs recorded of one connection. Pure.

use jiff::Timestamp;
use mpwatch_model::flow::connection::{Connection, Fallback};
use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::subflow::{Scheduler, Subflow};
use mpwatch_model::flow::timeline::TimelineEntry;
use mpwatch_model::host::energy::FlowEnergy;
use mpwatch_model::kernel::lifecycle::FallbackReason;
use mpwatch_model::settle;

use crate::schema::record::whole_nanos;
use crate::schema::values::{nanos, timestamp};

/// What the file holds of a connection that an earlier run has seen.
#[derive(Clone)]
pub(crate) struct EarlierRecord {
    pub(crate) flow: Connection,
    /// UTC nanoseconds: when it began, and until when it is known.
    pub(crate) began_ns: i64,
    pub(crate) until_ns: i64,
    /// Whether the runs overlap in time: then both have counted the same, and nothing is added.
    pub(crate) overlaps: bool,
    /// Runs that have seen it.
    pub(crate) runs: i64,
}

impl EarlierRecord {
    /// Moves all its times.
    pub(crate) fn shift(&mut self, by_ns: i64) {
        self.flow.shift(by_ns);
        self.began_ns = self.began_ns.saturating_add(by_ns);
        self.until_ns = self.until_ns.saturating_add(by_ns);
    }

    /// The record of all runs, and until when it is known.
    pub(crate) fn merge(&self, flow: &Connection, seen_at: Timestamp) -> (Connection, Timestamp) {
        let until_ns = nanos(flow.closed_at.unwrap_or(seen_at));
        // A recording may be imported after a later run.
        let is_later = match (self.flow.closed_at, flow.closed_at) {
            (None, Some(_)) => true,
            (Some(_), None) => false,
            _ => until_ns >= self.until_ns,
        };
        let (old, new) = if is_later { (&self.flow, flow) } else { (flow, &self.flow) };
        let mut one = connection(old, new, self.overlaps);
        let last_ns = if is_later { until_ns } else { self.until_ns };
        let began_ns = one.opened_at.map_or(self.began_ns.min(until_ns - whole_nanos(flow.age_s)), nanos);
        one.age_s = (last_ns - began_ns).max(0) as f64 / 1e9;
        (settle::settled(one), timestamp(last_ns))
    }
}

/// The kernel's counters are totals over the life of a connection, so the later ones hold. Times and names may be known to the earlier run
/// only. CPU time, energy and scheduler rounds are counted by mpwatch, so each run has a part of them.
fn connection(old: &Connection, new: &Connection, overlaps: bool) -> Connection {
    let mut one = new.clone();
    one.subflows = subflows(&old.subflows, &new.subflows, overlaps);
    one.observed = both(old.observed, new.observed, |old, new| observed(old, new, overlaps));
    one.remote_token = new.remote_token.or(old.remote_token);
    one.role = new.role.or(old.role);
    one.process = new.process.or(old.process);
    one.cgroup = new.cgroup.clone().or_else(|| old.cgroup.clone());
    one.pod = new.pod.clone().or_else(|| old.pod.clone());
    // The addresses of the initial subflow, which only the earlier run may have seen.
    (one.local, one.remote) = (old.local.or(new.local), old.remote.or(new.remote));
    one.opened_at = old.opened_at.or(new.opened_at);
    one.seen_open = one.opened_at.is_some();
    one.fallback = fallback(old.fallback, new.fallback);
    one.second_path = old.second_path.or(new.second_path);
    if let (Some(path), Some(later)) = (&mut one.second_path, new.second_path) {
        path.effective_after_bytes = path.effective_after_bytes.or(later.effective_after_bytes);
    }
    one.bottlenecks = new.bottlenecks.clone().or_else(|| old.bottlenecks.clone());
    one.timeline = merged_timeline(&old.timeline, &new.timeline);
    one
}

fn fallback(old: Option<Fallback>, new: Option<Fallback>) -> Option<Fallback> {
    old.filter(|old| old.reason != FallbackReason::Unknown).or(new).or(old)
}

fn find<'a>(all: &'a [Subflow], one: &Subflow) -> Option<&'a Subflow> {
    all.iter().find(|other| other.id == one.id)
}

/// Merges subflows, in the order of the earlier run; new ones follow.
fn subflows(old: &[Subflow], new: &[Subflow], overlaps: bool) -> Vec<Subflow> {
    let known =
        old.iter().map(|old| find(new, old).map_or_else(|| old.clone(), |new| subflow(old, new, overlaps)));
    let added = new.iter().filter(|new| find(old, new).is_none()).cloned();
    known.chain(added).collect()
}

fn subflow(old: &Subflow, new: &Subflow, overlaps: bool) -> Subflow {
    let (more, fewer) = if old.rtt_samples > new.rtt_samples { (old, new) } else { (new, old) };
    Subflow {
        interface: new.interface.or(old.interface),
        congestion_control: new.congestion_control.or(old.congestion_control),
        created_at: old.created_at.or(new.created_at),
        handshake: old.handshake.or(new.handshake),
        joined_after: old.joined_after.or(new.joined_after),
        joined_after_bytes: old.joined_after_bytes.or(new.joined_after_bytes),
        rtt_p50: more.rtt_p50.or(fewer.rtt_p50),
        rtt_p99: more.rtt_p99.or(fewer.rtt_p99),
        rtt_samples: more.rtt_samples,
        timeouts: new.timeouts.or(old.timeouts),
        scheduler: both(old.scheduler, new.scheduler, |a, b| scheduler(a, b, overlaps)),
        cpu: both(old.cpu, new.cpu, |a, b| if overlaps { a.max(b) } else { a + b }),
        energy: both(old.energy, new.energy, |a, b| energy(a, b, overlaps)),
        observed: observed(old.observed, new.observed, overlaps),
        closed: new.closed.or(old.closed),
        ..new.clone()
    }
}

/// Runs that follow each other have observed different parts.
fn observed(old: Observed, new: Observed, overlaps: bool) -> Observed {
    match overlaps {
        true if old.duration > new.duration => old,
        true => new,
        false => old.plus(new),
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

/// A run without counters adds no joules: the sum is what was measured. Without idle power in one run, `active` of the sum is unknown.
fn energy(old: FlowEnergy, new: FlowEnergy, overlaps: bool) -> FlowEnergy {
    match (old.full, new.full) {
        _ if overlaps && old.cpu > new.cpu => old,
        _ if overlaps => new,
        (Some(_), None) => FlowEnergy { cpu: old.cpu + new.cpu, ..old },
        (None, Some(_)) => FlowEnergy { cpu: old.cpu + new.cpu, ..new },
        _ => FlowEnergy::sum([&old, &new]),
    }
}

fn merged_timeline(old: &[TimelineEntry], new: &[TimelineEntry]) -> Vec<TimelineEntry> {
    let added = new.iter().filter(|entry| !old.contains(entry));
    old.iter().chain(added).cloned().collect()
}
