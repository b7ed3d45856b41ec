// SPDX-License-Identifier: MIT OR Apache-2.0
//! All connections: active connections, which take part in ticks, with their detectors; and idle connections.

use std::collections::HashMap;
use std::sync::Arc;

use mpwatch_model::capacity::shrink_map;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::EliminationRecord;
use mpwatch_model::flow::idle::{IdleConnection as _, IdleConnections};
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEvent};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::SampleBatch;
use mpwatch_model::unit::Nanos;
use mpwatch_model::why::answer::Cause;

use super::bottleneck::{self, Detection};
use super::explanation::Explained;
use super::flow::{Flow, Quiet};
use super::idle::{self, Idle, IdleFlow};
use super::index::Key;
use super::names::Changed;
use super::view::Sources;
use crate::bottleneck::{Detector, Pool};
use crate::why;

#[derive(Default)]
pub(super) struct Flows {
    /// The connections that take part in ticks.
    active: HashMap<Key, Flow>,
    /// Detectors of the active connections that have samples.
    detectors: HashMap<Key, Box<Detector>>,
    idle: Idle,
}

/// A connection for a snapshot.
enum Found<'a> {
    Active(&'a Flow),
    Idle(&'a IdleFlow),
}

impl Flows {
    /// The flow of a record. It takes part in ticks from now on.
    pub(super) fn record(&mut self, key: Key, now: Nanos, new: impl FnOnce() -> Flow) -> &mut Flow {
        self.wake([key], now);
        self.active.entry(key).or_insert_with(new)
    }

    /// An active flow. `None`: the flow is idle or was forgotten.
    pub(super) fn active(&self, key: Key) -> Option<&Flow> {
        self.active.get(&key)
    }

    /// An active flow, mutable, and its detector. `None`: the flow is idle or was forgotten, or it has no detector.
    pub(super) fn active_mut(&mut self, key: Key) -> Option<(&mut Flow, Option<&mut Box<Detector>>)> {
        Some((self.active.get_mut(&key)?, self.detectors.get_mut(&key)))
    }

    /// All active flows.
    pub(super) fn all_active(&self) -> impl Iterator<Item = (Key, &Flow)> {
        self.active.iter().map(|(key, flow)| (*key, flow))
    }

    /// All active flows, mutable. Sorted, because the flow that gets an indivisible microjoule must not depend on the order of a hash map.
    pub(super) fn sorted_mut(&mut self) -> Vec<&mut Flow> {
        let mut flows: Vec<&mut Flow> = self.active.values_mut().collect();
        flows.sort_unstable_by_key(|flow| flow.serial);
        flows
    }

    /// Notes that the last record of a subflow is still current. `None`: the last record of the MPTCP socket.
    pub(super) fn on_unchanged(&mut self, key: Option<Key>, subflow: Option<SubflowId>) {
        if let Some(key) = key
            && !self.idle.note(key, subflow)
            && let Some(flow) = self.active.get_mut(&key)
        {
            flow.on_unchanged(subflow);
        }
    }

    pub(super) fn on_elimination(&mut self, key: Option<Key>, record: &EliminationRecord) {
        self.wake(key, record.at);
        if let Some(flow) = key.and_then(|key| self.active.get_mut(&key)) {
            flow.timeline.add(
                record.at,
                ObservedBy::Control,
                TimelineEvent::Elimination(record.step.clone()),
            );
        }
    }

    pub(super) fn on_explanation(&mut self, key: Option<Key>, cause: Option<&Arc<Cause>>, now: Nanos) {
        self.wake(key, now);
        if let Some(flow) = key.and_then(|key| self.active.get_mut(&key)) {
            flow.explained = Explained::asked(flow.fell_back, cause.cloned());
        }
    }

    /// The first connections that need an explanation, at most `limit`. They are returned once.
    pub(super) fn take_unexplained(&mut self, sources: &Sources<'_>, limit: usize) -> Vec<why::Question> {
        let flows = self.active.values_mut().filter(|flow| flow.needs_explanation(sources.now));
        let mut flows: Vec<&mut Flow> = flows.collect();
        flows.sort_unstable_by_key(|flow| flow.serial);
        flows.truncate(limit);
        let take = |flow: &mut Flow| {
            flow.explained = Explained::asked(flow.fell_back, None);
            why::Question::new(&sources.connection(flow, None))
        };
        flows.into_iter().filter_map(take).collect()
    }

    pub(super) fn add_samples(&mut self, key: Key, batch: &SampleBatch, detection: Detection, now: Nanos) {
        self.wake([key], now);
        if let Some(flow) = self.active.get_mut(&key) {
            flow.quiet = Quiet::default();
            self.detectors.entry(key).or_insert_with(|| detection.detector()).add(batch);
        }
    }

    pub(super) fn evaluate_bottlenecks(&mut self, pool: &Pool, now: Nanos) {
        for (key, detector) in &mut self.detectors {
            if let Some(flow) = self.active.get(key) {
                bottleneck::evaluate(detector, flow, pool, now);
            }
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Flow> {
        self.detectors.remove(&key);
        self.active.remove(&key)
    }

    /// Makes idle connections active if the BPF programs did not list all their sockets, or if their names have changed.
    pub(super) fn check_idle(&mut self, renamed: &Changed, now: Nanos) {
        let missing = self.idle.check(now);
        self.wake(missing, now);
        if !renamed.is_empty() {
            let renamed = self.idle.named(renamed);
            self.wake(renamed, now);
        }
    }

    pub(super) fn wake_all(&mut self, now: Nanos) {
        let all = self.idle.keys();
        self.wake(all, now);
    }

    fn wake(&mut self, keys: impl IntoIterator<Item = Key>, now: Nanos) {
        for key in keys {
            if let Some((flow, detector)) = self.idle.remove(key, now) {
                self.active.insert(key, flow);
                self.detectors.extend(detector.map(|detector| (key, detector)));
            }
        }
    }

    /// Makes connections without activity idle.
    pub(super) fn make_idle(&mut self, sources: &Sources<'_>) {
        let may_be_idle = |(key, flow): &(&Key, &Flow)| {
            let detector = self.detectors.get(*key).map(|detector| &**detector);
            let is_charged = sources.energy.is_none_or(|energy| energy.is_steady(flow));
            is_charged && idle::may_be_idle(flow, detector, sources.now)
        };
        let keys: Vec<Key> = self.active.iter().filter(may_be_idle).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(flow) = self.active.remove(&key) else { continue };
            let detector = self.detectors.remove(&key);
            self.idle.add(key, IdleFlow::pack(flow, detector.as_deref(), sources), detector, sources.now);
        }
        shrink_map(&mut self.active);
        shrink_map(&mut self.detectors);
    }

    /// All connections, or only the active connections, in the order of their first records.
    pub(super) fn connections(&self, sources: &Sources<'_>, with_idle: bool) -> Vec<Connection> {
        let active = self.active.iter().filter(|(_, flow)| flow.is_reportable());
        let active = active.map(|(key, flow)| (*key, Found::Active(flow)));
        let idle = self.idle.iter().filter(|_| with_idle).map(|(key, flow)| (key, Found::Idle(flow)));
        let mut found: Vec<(Key, Found<'_>)> = active.chain(idle).collect();
        found.sort_unstable_by_key(|(key, _)| key.serial);
        let connection = |(key, found)| match found {
            Found::Active(flow) => {
                sources.connection(flow, self.detectors.get(&key).map(|detector| &**detector))
            }
            Found::Idle(idle) => idle.connection(sources.now, sources.start.boot_epoch_ns),
        };
        found.into_iter().map(connection).collect()
    }

    /// Memory of the idle connections in bytes, without their names and verdicts.
    #[cfg(test)]
    pub(super) fn idle_bytes(&self) -> usize {
        self.idle.iter().map(|(_, flow)| flow.bytes()).sum()
    }

    /// The idle connections, for a snapshot.
    pub(super) fn idle(&self) -> &IdleConnections {
        self.idle.shared()
    }
}
