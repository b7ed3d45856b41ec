// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters that outlive their flows: sums over the host, by peer, interface and control group. The bytes of ended flows stay in them.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::net::IpAddr;

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::Name;
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::metric::distribution::{CONNECTION_DISTRIBUTIONS, SUBFLOW_DISTRIBUTIONS};
use mpwatch_model::metric::event_counter::{CONNECTION_EVENTS, SUBFLOW_EVENTS};
use mpwatch_model::metric::{CONNECTION, CONNECTION_INFO, SUBFLOW, SUBFLOW_INFO, Unit};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::subflow::Subflow;

use super::bounded::{BoundedSums, Limits};
use super::flow_counters::FlowCounters;
use super::interfaces::{Interface, paths};
use super::largest::LargestFlows;
use super::sums::{Sums, add, counters};
use super::values::{LabelledValues, MetricValues, OTHER, UNKNOWN};

/// Maximum number of interfaces, peers and control groups with series of their own.
const MAX_INTERFACES: usize = 64;
const MAX_PEERS: usize = 100;
const MAX_CGROUPS: usize = 100;
/// Maximum number of subflows with series of their own, for each of the largest connections.
const MAX_SUBFLOWS_PER_CONNECTION: usize = 8;

type SubflowKey = (ConnectionId, SubflowId);
/// Digest of the path of a control group: a key that can be copied.
type CgroupKey = u64;

/// The part of the daemon's configuration that concerns Prometheus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Number of largest connections with series of their own. Zero: none.
    pub top_flows: usize,
}

/// The sums over all snapshots so far.
pub struct Totals {
    settings: Settings,
    connections: FlowCounters<ConnectionId, Connection>,
    subflows: FlowCounters<SubflowKey, Subflow>,
    host: Sums,
    /// Interfaces with the same name in several namespaces are one.
    interfaces: BoundedSums<Option<Name>>,
    /// The values of their gauges in the latest snapshot, and of all other interfaces together.
    interface_gauges: HashMap<Interface, Sums>,
    peers: BoundedSums<Option<IpAddr>>,
    cgroups: BoundedSums<Option<CgroupKey>>,
    /// Paths of the control groups with series of their own.
    cgroup_paths: HashMap<CgroupKey, String>,
    /// Peer and control group of each connection of the current snapshot, in the same order.
    groups: Vec<(Option<IpAddr>, Option<CgroupKey>)>,
    /// Number of peers and control groups in the latest snapshot.
    group_counts: (usize, usize),
    largest_connections: LargestFlows<ConnectionId, Connection>,
    largest_subflows: LargestFlows<SubflowKey, Subflow>,
}

fn max_subflows(settings: Settings) -> usize {
    settings.top_flows * MAX_SUBFLOWS_PER_CONNECTION
}

impl Totals {
    /// Sums without any snapshot.
    pub fn new(settings: Settings) -> Self {
        let up_to = |max| Limits { max_present: max, max_total: max, linger: None };
        // Payload starts at zero. Time and energy may turn out to be unknown.
        let initial = |unit| matches!(unit, Unit::Bytes | Unit::Segments | Unit::Count).then_some(0.0);
        Self {
            settings,
            connections: FlowCounters::new(CONNECTION, CONNECTION_EVENTS, CONNECTION_DISTRIBUTIONS),
            subflows: FlowCounters::new(SUBFLOW, SUBFLOW_EVENTS, SUBFLOW_DISTRIBUTIONS),
            host: counters(CONNECTION).map(|row| initial(row.unit)).collect(),
            interfaces: BoundedSums::new(up_to(MAX_INTERFACES)),
            interface_gauges: HashMap::new(),
            peers: BoundedSums::new(up_to(MAX_PEERS)),
            cgroups: BoundedSums::new(up_to(MAX_CGROUPS)),
            cgroup_paths: HashMap::new(),
            groups: Vec::new(),
            group_counts: (0, 0),
            largest_connections: LargestFlows::new(settings.top_flows, CONNECTION, &CONNECTION_INFO),
            largest_subflows: LargestFlows::new(max_subflows(settings), SUBFLOW, &SUBFLOW_INFO),
        }
    }

    /// Changes the settings.
    pub fn configure(&mut self, settings: Settings) {
        self.settings = settings;
        self.largest_connections.set_limit(settings.top_flows);
        self.largest_subflows.set_limit(max_subflows(settings));
    }

    /// Adds what every flow carried since the previous snapshot. Snapshots come in order of time.
    pub fn update(&mut self, snapshot: &Snapshot) {
        self.select(snapshot);
        for (connection, (peer, cgroup)) in snapshot.connections.iter().zip(&self.groups) {
            let increase = self.connections.update(connection.id, connection, connection.seen_open);
            if !increase.unchanged {
                add(&mut self.host, &increase.values);
            }
            self.peers.add(*peer, increase);
            self.cgroups.add(*cgroup, increase);
            self.largest_connections.add(connection.id, connection, increase);
            for subflow in &connection.subflows {
                let key = (connection.id, subflow.id);
                let increase = self.subflows.update(key, subflow, subflow.created_at.is_some());
                self.interfaces.add(subflow.interface, increase);
                self.largest_subflows.add(key, subflow, increase);
            }
        }
        let paths = paths(snapshot, |interface| self.interfaces.contains(&interface));
        self.interface_gauges = paths.into_iter().map(|(key, mut paths)| (key, paths.values())).collect();
        self.connections.end_snapshot();
        self.subflows.end_snapshot();
    }

    /// The current values, for scrapes until the next snapshot.
    pub fn values(&self) -> MetricValues {
        let mut values = MetricValues {
            host: vec![LabelledValues { labels: Vec::new(), values: self.host.clone() }],
            peers: labelled(&self.peers, |key| key.map(|address| address.to_string())),
            interfaces: labelled(&self.interfaces, |key| key.map(|name| name.text().into_owned())),
            interface_gauges: self.interface_gauges(),
            cgroups: labelled(&self.cgroups, |key| self.cgroup_paths.get(&key?).cloned()),
            connection_events: self.connections.event_counts.clone(),
            subflow_events: self.subflows.event_counts.clone(),
            connection_histograms: self.connections.histograms.clone(),
            subflow_histograms: self.subflows.histograms.clone(),
            merged: self.interfaces.merged
                + self.peers.merged
                + self.cgroups.merged
                + self.largest_connections.counters.merged
                + self.largest_subflows.counters.merged,
            ..MetricValues::default()
        };
        if self.settings.top_flows > 0 {
            values.connections = self.largest_connections.values(|id| [id.to_string()]);
            let ids = |(connection, subflow): &SubflowKey| [connection.to_string(), subflow.to_string()];
            values.subflows = self.largest_subflows.values(ids);
        }
        values
    }

    /// An interface without an open subflow has none, and so no RTT.
    fn interface_gauges(&self) -> Vec<LabelledValues> {
        let none = || vec![Some(0.0), Some(0.0), None];
        let of = |key: Interface| self.interface_gauges.get(&key).cloned().unwrap_or_else(none);
        let label =
            |name: Option<Name>| name.map_or_else(|| UNKNOWN.to_owned(), |name| name.text().into_owned());
        let own = self.interfaces.iter().map(|(name, _)| (label(name), of(Interface::Own(name))));
        let all = own.chain([(OTHER.to_owned(), of(Interface::Other))]);
        let mut all: Vec<LabelledValues> =
            all.map(|(label, values)| LabelledValues { labels: vec![label], values }).collect();
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        all
    }

    /// Selects by size what has series of its own until the next snapshot, so that a large flow is exported from its first byte.
    fn select(&mut self, snapshot: &Snapshot) {
        let mut peers = HashMap::with_capacity(self.group_counts.0);
        let mut cgroups = HashMap::with_capacity(self.group_counts.1);
        let mut interfaces = HashMap::new();
        self.groups.clear();
        for connection in &snapshot.connections {
            for subflow in &connection.subflows {
                *interfaces.entry(subflow.interface).or_insert(0) += subflow_size(subflow);
            }
            let peer = connection.remote.map(|remote| remote.ip());
            let (cgroup, size) = (cgroup_key(connection), connection_size(connection));
            *peers.entry(peer).or_insert(0) += size;
            *cgroups.entry(cgroup).or_insert(0) += size;
            self.groups.push((peer, cgroup));
        }
        self.group_counts = (peers.len(), cgroups.len());
        self.peers.select(snapshot.at, peers);
        self.interfaces.select(snapshot.at, interfaces);
        self.cgroups.select(snapshot.at, cgroups);
        self.update_cgroup_paths(snapshot);
        if self.settings.top_flows > 0 {
            self.select_largest(snapshot);
        }
    }

    fn select_largest(&mut self, snapshot: &Snapshot) {
        let sizes =
            snapshot.connections.iter().map(|connection| (connection.id, connection_size(connection)));
        self.largest_connections.select(snapshot.at, sizes.collect());
        let mut sizes = HashMap::new();
        for connection in
            snapshot.connections.iter().filter(|one| self.largest_connections.counters.contains(&one.id))
        {
            let mut subflows: Vec<&Subflow> = connection.subflows.iter().collect();
            subflows.sort_by_key(|subflow| (subflow.closed.is_some(), Reverse(subflow_size(subflow))));
            let largest = subflows.into_iter().take(MAX_SUBFLOWS_PER_CONNECTION);
            sizes.extend(largest.map(|subflow| ((connection.id, subflow.id), subflow_size(subflow))));
        }
        self.largest_subflows.select(snapshot.at, sizes);
    }

    fn update_cgroup_paths(&mut self, snapshot: &Snapshot) {
        self.cgroup_paths.retain(|key, _| self.cgroups.contains(&Some(*key)));
        let keys = self.cgroups.iter().filter_map(|(key, _)| key);
        let mut missing: HashSet<CgroupKey> =
            keys.filter(|key| !self.cgroup_paths.contains_key(key)).collect();
        for (connection, (_, key)) in snapshot.connections.iter().zip(&self.groups) {
            if missing.is_empty() {
                break;
            }
            if let (Some(key), Some(path)) = (key, &connection.cgroup)
                && missing.remove(key)
            {
                self.cgroup_paths.insert(*key, path.clone());
            }
        }
    }
}

fn cgroup_key(connection: &Connection) -> Option<CgroupKey> {
    connection.cgroup.as_deref().map(|path| {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        hasher.finish()
    })
}

fn connection_size(connection: &Connection) -> u64 {
    connection.subflows.iter().map(subflow_size).sum()
}

fn subflow_size(subflow: &Subflow) -> u64 {
    (subflow.bytes_sent + subflow.bytes_received).0
}

fn labelled<K: Copy + Eq + Hash + Ord>(
    sums: &BoundedSums<K>,
    label: impl Fn(K) -> Option<String>,
) -> Vec<LabelledValues> {
    let of = |label: String, sums: &Sums| LabelledValues { labels: vec![label], values: sums.clone() };
    let mut all: Vec<LabelledValues> =
        sums.iter().map(|(key, sums)| of(label(key).unwrap_or_else(|| UNKNOWN.to_owned()), sums)).collect();
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    all.push(of(OTHER.to_owned(), &sums.other));
    all
}
