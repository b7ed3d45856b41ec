// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters that outlive their flows: sums over the host, and by peer, interface, control group and namespace of pods. Ended flows stay in
//! the sums.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::metric::distribution::{
    CONNECTION_DISTRIBUTIONS, INTERFACE_DISTRIBUTIONS, SUBFLOW_DISTRIBUTIONS,
};
use mpwatch_model::metric::event_counter::{CONNECTION_EVENTS, EventCounter, SUBFLOW_EVENTS};
use mpwatch_model::metric::{CONNECTION, CONNECTION_INFO, Metric, SUBFLOW, SUBFLOW_INFO, Unit};
use mpwatch_model::snapshot::Snapshot;

use super::bounded::{BoundedSums, Limits};
use super::flow_counters::FlowCounters;
use super::groups::{Group, Groups};
use super::interfaces::{Interfaces, Path, label};
use super::largest::LargestFlows;
use super::values::{Increase, LabelledValues, MetricValues, Sums, add, counters, observe};

/// Maximum number of interfaces with series of their own.
const MAX_INTERFACES: usize = 64;
/// Maximum number of subflows with series of their own, for each of the largest connections.
const MAX_SUBFLOWS_PER_CONNECTION: usize = 8;

type SubflowKey = (ConnectionId, SubflowId);

/// The sums over all snapshots so far.
pub struct Totals {
    top_flows: usize,
    connections: FlowCounters<ConnectionId, Connection, Group>,
    subflows: FlowCounters<SubflowKey, Subflow, Path>,
    host: Sums,
    /// Interfaces with the same name in several namespaces share their series.
    interfaces: BoundedSums<Option<Name>>,
    /// For each distribution by interface, the sums of its histograms. They select the same interfaces as the counters.
    interface_histograms: Vec<BoundedSums<Option<Name>>>,
    /// For each counter of events by interface, its number and a count for each value of its label.
    interface_events: Vec<(usize, BoundedSums<Option<Name>>)>,
    groups: Groups,
    paths: Interfaces,
    largest_connections: LargestFlows<ConnectionId, Connection>,
    largest_subflows: LargestFlows<SubflowKey, Subflow>,
}

impl Totals {
    /// `top_flows`: how many of the largest connections have series of their own.
    pub fn new(top_flows: usize) -> Self {
        let limits = Limits { max_present: MAX_INTERFACES, max_total: MAX_INTERFACES, linger: None };
        // Counters of payload start at zero. Counters of time and energy stay `None` until a value is known.
        let initial = |unit| matches!(unit, Unit::Bytes | Unit::Segments | Unit::Count).then_some(0.0);
        Self {
            top_flows,
            connections: FlowCounters::new(CONNECTION, CONNECTION_EVENTS, CONNECTION_DISTRIBUTIONS),
            subflows: FlowCounters::new(
                SUBFLOW,
                SUBFLOW_EVENTS,
                SUBFLOW_DISTRIBUTIONS.iter().chain(INTERFACE_DISTRIBUTIONS),
            ),
            host: counters(CONNECTION).map(|row| initial(row.unit)).collect(),
            interfaces: BoundedSums::new(limits),
            interface_histograms: INTERFACE_DISTRIBUTIONS.iter().map(|_| BoundedSums::new(limits)).collect(),
            interface_events: events_by_interface()
                .map(|(number, _)| (number, BoundedSums::new(limits)))
                .collect(),
            groups: Groups::default(),
            paths: Interfaces::default(),
            largest_connections: LargestFlows::new(top_flows, CONNECTION, &CONNECTION_INFO),
            largest_subflows: LargestFlows::new(
                top_flows * MAX_SUBFLOWS_PER_CONNECTION,
                SUBFLOW,
                &SUBFLOW_INFO,
            ),
        }
    }

    /// Changes how many of the largest connections have series of their own.
    pub fn set_top_flows(&mut self, top_flows: usize) {
        self.top_flows = top_flows;
        self.largest_connections.set_limit(top_flows);
        self.largest_subflows.set_limit(top_flows * MAX_SUBFLOWS_PER_CONNECTION);
    }

    /// Adds the traffic of every flow since the previous snapshot. Idle flows carried nothing.
    pub fn update(&mut self, snapshot: &Snapshot) {
        self.list(snapshot);
        self.select(snapshot);
        let mut place = 0;
        for (number, connection) in snapshot.connections.iter().enumerate() {
            let (group, increase) = self.connections.update(number, connection, connection.seen_open);
            if !increase.unchanged {
                add(&mut self.host, &increase.values);
            }
            self.groups.add(&group, increase);
            self.largest_connections.add(connection.id, connection, increase);
            for subflow in &connection.subflows {
                let key = (connection.id, subflow.id);
                let (_, increase) = self.subflows.update(place, subflow, subflow.created_at.is_some());
                charge(&mut self.interfaces, [subflow.interface, subflow.incoming_interface], increase);
                for (number, sums) in &mut self.interface_events {
                    if let Some(counts) = increase.counts_of(*number) {
                        sums.add(subflow.interface, &counts);
                    }
                }
                let observed = increase.observed.iter().skip(SUBFLOW_DISTRIBUTIONS.len());
                let rows = INTERFACE_DISTRIBUTIONS.iter().zip(&mut self.interface_histograms);
                for ((row, sums), value) in rows.zip(observed) {
                    if let Some(value) = *value {
                        let mut increase = Increase::default();
                        observe(&mut increase.values, row.bounds, value);
                        sums.add(subflow.interface, &increase);
                    }
                }
                self.largest_subflows.add(key, subflow, increase);
                place += 1;
            }
        }
        self.add_idle(snapshot);
        self.connections.end_snapshot();
        self.subflows.end_snapshot();
    }

    fn list(&mut self, snapshot: &Snapshot) {
        for connection in &snapshot.connections {
            let paths = || connection.subflows.iter().map(Path::from_subflow);
            let group = self.groups.list(connection, paths().map(|path| path.size).sum());
            if let Some(before) = self.connections.list(connection.id, group) {
                self.groups.change(before, false);
            }
            for (subflow, path) in connection.subflows.iter().zip(paths()) {
                if let Some(before) = self.subflows.list((connection.id, subflow.id), path) {
                    self.paths.change(&before, false);
                }
                self.paths.change(&path, true);
            }
        }
        self.connections
            .forget_gone(|id| snapshot.idle.contains(*id), |group| self.groups.change(group, false));
        self.subflows
            .forget_gone(|(id, _)| snapshot.idle.contains(*id), |path| self.paths.change(&path, false));
    }

    /// Adds zeros for the known counters of idle flows that now have series of their own, so that these counters appear.
    fn add_idle(&mut self, snapshot: &Snapshot) {
        if self.groups.has_added() {
            self.connections.idle().for_each(|(group, increase)| self.groups.add(group, &increase));
        }
        if !self.interfaces.added.is_empty() {
            for (path, increase) in self.subflows.idle() {
                charge(&mut self.interfaces, [path.interface, path.incoming], &increase);
            }
        }
        // Gauges such as the age change while a flow is idle.
        let connections = self.largest_connections.counters.iter().map(|(id, _)| id);
        let subflows = self.largest_subflows.counters.iter().map(|((id, _), _)| id);
        let largest: HashSet<ConnectionId> = connections.chain(subflows).collect();
        for idle in largest.iter().filter_map(|id| snapshot.idle.get(*id)) {
            let connection = idle.connection(snapshot.boot_time(), snapshot.boot_epoch_ns);
            if let Some(increase) = self.connections.unchanged(&connection.id) {
                self.largest_connections.add(connection.id, &connection, &increase);
            }
            for subflow in &connection.subflows {
                let key = (connection.id, subflow.id);
                if let Some(increase) = self.subflows.unchanged(&key) {
                    self.largest_subflows.add(key, subflow, &increase);
                }
            }
        }
    }

    /// The values for scrapes until the next snapshot.
    pub fn values(&self) -> MetricValues {
        let mut values = MetricValues {
            host: LabelledValues::only(&self.host),
            interfaces: self.interfaces.labelled(|name| name.map(label)),
            interface_gauges: self.interface_gauges(),
            interface_histograms: self.interface_histograms(),
            interface_events: self.interface_events(),
            connection_events: self.connections.event_counts.clone(),
            subflow_events: self.subflows.event_counts.clone(),
            connection_histograms: self.connections.histograms.iter().map(LabelledValues::only).collect(),
            subflow_histograms: self.subflows.histograms.iter().map(LabelledValues::only).collect(),
            merged: self.interfaces.merged
                + self.largest_connections.counters.merged
                + self.largest_subflows.counters.merged,
            ..MetricValues::default()
        };
        self.groups.write(&mut values);
        if self.top_flows > 0 {
            values.connections = self.largest_connections.values(|id| [id.to_string()]);
            let ids = |(connection, subflow): &SubflowKey| [connection.to_string(), subflow.to_string()];
            values.subflows = self.largest_subflows.values(ids);
        }
        values
    }

    /// The histograms by interface. An interface without an observation has no histogram.
    fn interface_histograms(&self) -> Vec<Vec<LabelledValues>> {
        let labelled = |sums: &BoundedSums<Option<Name>>| {
            let all = sums.labelled(|name| name.map(label)).into_iter();
            all.filter(|sums| !sums.values.is_empty()).collect()
        };
        self.interface_histograms.iter().map(labelled).collect()
    }

    fn interface_events(&self) -> Vec<Vec<LabelledValues>> {
        self.interface_events.iter().map(|(_, sums)| sums.labelled(|name| name.map(label))).collect()
    }

    /// Gauges of all interfaces with series of their own, even if they have no open subflows.
    fn interface_gauges(&self) -> Vec<LabelledValues> {
        let others = self.paths.gauges_of_others(|name| self.interfaces.contains(&name));
        self.interfaces.labelled_with(|name| name.map(label), |name, _| self.paths.gauges(name), others)
    }

    /// Selects the label values with series of their own before the increases are added, so that a large flow is exported from its first byte.
    fn select(&mut self, snapshot: &Snapshot) {
        let sizes = self.paths.sizes();
        self.interfaces.select(snapshot.at, &sizes);
        self.interface_histograms.iter_mut().for_each(|sums| sums.select(snapshot.at, &sizes));
        self.interface_events.iter_mut().for_each(|(_, sums)| sums.select(snapshot.at, &sizes));
        self.groups.select(snapshot.at);
        if self.top_flows > 0 {
            self.select_largest(snapshot);
        }
    }

    fn select_largest(&mut self, snapshot: &Snapshot) {
        let sizes = self.connections.facts().map(|(id, group)| (id, group.size));
        self.largest_connections.select(snapshot.at, &sizes.collect());
        let mut subflows: HashMap<ConnectionId, Vec<(SubflowKey, &Path)>> = HashMap::new();
        for (key, path) in self.subflows.facts() {
            if self.largest_connections.counters.contains(&key.0) {
                subflows.entry(key.0).or_default().push((key, path));
            }
        }
        let mut sizes = HashMap::new();
        for mut subflows in subflows.into_values() {
            subflows.sort_by_key(|(key, path)| (!path.is_open, Reverse(path.size), key.1));
            let largest = subflows.into_iter().take(MAX_SUBFLOWS_PER_CONNECTION);
            sizes.extend(largest.map(|(key, path)| (key, path.size)));
        }
        self.largest_subflows.select(snapshot.at, &sizes);
    }
}

/// The counters of subflow events that are exported by interface, with their numbers.
pub(super) fn events_by_interface() -> impl Iterator<Item = (usize, &'static EventCounter<Subflow>)> {
    SUBFLOW_EVENTS.iter().enumerate().filter(|(_, event)| event.apart.is_some())
}

/// Adds received bytes to the sums of the incoming interface, and all other counters to the sums of the outgoing interface.
fn charge(sums: &mut BoundedSums<Option<Name>>, interfaces: [Option<Name>; 2], increase: &Increase) {
    if interfaces[0] == interfaces[1] {
        return sums.add(interfaces[0], increase);
    }
    for (interface, is_incoming) in interfaces.into_iter().zip([false, true]) {
        let is_charged = |metric: &Metric<Subflow>| metric.name.contains("received_bytes") == is_incoming;
        let values = counters(SUBFLOW).zip(&increase.values);
        let values = values.map(|(metric, value)| value.filter(|_| is_charged(metric))).collect();
        sums.add(interface, &Increase { values, unchanged: increase.unchanged, ..Increase::default() });
    }
}
