// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sums that outlive their flows: fed with every snapshot, in order. What a flow has carried stays in them when it ends.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::Name;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::metric::distribution::{CONNECTION_DISTRIBUTIONS, SUBFLOW_DISTRIBUTIONS};
use mpwatch_model::metric::event_counter::{CONNECTION_EVENTS, SUBFLOW_EVENTS};
use mpwatch_model::metric::{CONNECTION, CONNECTION_INFO, SUBFLOW, SUBFLOW_INFO, Unit};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::subflow::Subflow;

use super::bounded::{Bounded, Limits, Sums, add};
use super::growth::{Growth, Observed, counters};
use super::top::{SUBFLOWS_EACH, Shown, SubflowKey, Top};

/// Interfaces with series of their own.
const INTERFACES: usize = 64;
/// Peers with series of their own.
const PEERS: usize = 100;
/// Control groups with series of their own.
const CGROUPS: usize = 100;
/// Label of what has no series of its own.
pub(super) const OTHER: &str = "__other__";
/// Label of what is not known.
const UNKNOWN: &str = "__unknown__";

/// What of Prometheus the configuration decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// So many of the largest connections have series of their own. Zero: none.
    pub top_flows: usize,
}

/// The sums.
pub struct Totals {
    settings: Settings,
    connections: Growth<ConnectionId, Connection>,
    subflows: Growth<SubflowKey, Subflow>,
    host: Sums,
    /// Those of the same name in several namespaces are summed.
    interfaces: Bounded<Option<Name>>,
    peers: Bounded<Option<IpAddr>>,
    cgroups: Bounded<Option<u64>>,
    cgroup_paths: HashMap<u64, String>,
    /// Of each connection of the snapshot at hand, in its order.
    groups: Vec<(Option<IpAddr>, Option<u64>)>,
    /// How many there were in the snapshot before.
    peer_count: usize,
    cgroup_count: usize,
    top: Top<ConnectionId, Connection>,
    top_subflows: Top<SubflowKey, Subflow>,
}

/// The sums after a snapshot: nothing of it changes any more.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub(super) host: Sums,
    pub(super) happened_to_connections: Vec<Vec<u64>>,
    pub(super) happened_to_subflows: Vec<Vec<u64>>,
    pub(super) interfaces: Vec<(String, Sums)>,
    pub(super) peers: Vec<(String, Sums)>,
    pub(super) cgroups: Vec<(String, Sums)>,
    pub(super) of_connections: Vec<Observed>,
    pub(super) of_subflows: Vec<Observed>,
    /// `None`: nobody asked for series of single flows.
    pub(super) flows: Option<(Shown, Shown)>,
    /// Label values that gave up their series so far.
    pub merged: u64,
}

impl Totals {
    /// Of nothing yet.
    pub fn new(settings: Settings) -> Self {
        let keep = |most| Limits { live: most, all: most, linger: None };
        // Payload is known to be none before the first connection; of time and energy it is not known whether they will be known.
        let none_yet = |unit| matches!(unit, Unit::Bytes | Unit::Segments).then_some(0.0);
        Self {
            settings,
            connections: Growth::new(CONNECTION, CONNECTION_EVENTS, CONNECTION_DISTRIBUTIONS),
            subflows: Growth::new(SUBFLOW, SUBFLOW_EVENTS, SUBFLOW_DISTRIBUTIONS),
            host: counters(CONNECTION).map(|row| none_yet(row.unit)).collect(),
            interfaces: Bounded::new(keep(INTERFACES)),
            peers: Bounded::new(keep(PEERS)),
            cgroups: Bounded::new(keep(CGROUPS)),
            cgroup_paths: HashMap::new(),
            groups: Vec::new(),
            peer_count: 0,
            cgroup_count: 0,
            top: Top::new(settings.top_flows, CONNECTION, &CONNECTION_INFO),
            top_subflows: Top::new(settings.top_flows * SUBFLOWS_EACH, SUBFLOW, &SUBFLOW_INFO),
        }
    }

    /// Other settings from now on.
    pub fn configure(&mut self, settings: Settings) {
        self.settings = settings;
        self.top.limit(settings.top_flows);
        self.top_subflows.limit(settings.top_flows * SUBFLOWS_EACH);
    }

    /// Takes in one snapshot.
    pub fn take(&mut self, snapshot: &Snapshot) {
        self.select(snapshot);
        let groups = std::mem::take(&mut self.groups);
        for (connection, (peer, cgroup)) in snapshot.connections.iter().zip(&groups) {
            self.connections.look(connection.id, connection, connection.seen_open);
            let grown = &self.connections.grown;
            if self.connections.is_still {
                self.peers.keep(*peer, grown);
                self.cgroups.keep(*cgroup, grown);
            } else {
                add(&mut self.host, grown);
                self.peers.charge(*peer, grown);
                self.cgroups.charge(*cgroup, grown);
            }
            self.top.charge(connection.id, connection, grown, self.connections.is_still);
            for subflow in &connection.subflows {
                self.take_subflow(connection.id, subflow);
            }
        }
        self.groups = groups;
        self.connections.end();
        self.subflows.end();
    }

    fn take_subflow(&mut self, connection: ConnectionId, subflow: &Subflow) {
        let key = (connection, subflow.id);
        self.subflows.look(key, subflow, subflow.created_at.is_some());
        let (grown, is_still) = (&self.subflows.grown, self.subflows.is_still);
        if is_still {
            self.interfaces.keep(subflow.interface, grown);
        } else {
            self.interfaces.charge(subflow.interface, grown);
        }
        self.top_subflows.charge(key, subflow, grown, is_still);
    }

    /// As they are now.
    pub fn figures(&self) -> Figures {
        let flows = (self.settings.top_flows > 0).then(|| {
            let ids = |id: &ConnectionId| vec![id.to_string()];
            let both = |(connection, subflow): &SubflowKey| vec![connection.to_string(), subflow.to_string()];
            (self.top.shown(ids), self.top_subflows.shown(both))
        });
        Figures {
            host: self.host.clone(),
            happened_to_connections: self.connections.counts.clone(),
            happened_to_subflows: self.subflows.counts.clone(),
            interfaces: labelled(&self.interfaces, |key| key.map(|name| name.text().into_owned())),
            peers: labelled(&self.peers, |key| key.map(|address| address.to_string())),
            cgroups: labelled(&self.cgroups, |key| self.cgroup_paths.get(&key?).cloned()),
            of_connections: self.connections.observed.clone(),
            of_subflows: self.subflows.observed.clone(),
            flows,
            merged: self.interfaces.merged()
                + self.peers.merged()
                + self.cgroups.merged()
                + self.top.merged()
                + self.top_subflows.merged(),
        }
    }

    /// Who has series of its own until the next snapshot. By size, so that what is large shows from its first byte.
    fn select(&mut self, snapshot: &Snapshot) {
        let mut peers = HashMap::with_capacity(self.peer_count);
        let mut cgroups = HashMap::with_capacity(self.cgroup_count);
        let mut interfaces = HashMap::new();
        self.groups.clear();
        for connection in &snapshot.connections {
            let (peer, cgroup, mut size) = (peer(connection), cgroup(connection), 0);
            for subflow in &connection.subflows {
                let weight = weight(subflow);
                *interfaces.entry(subflow.interface).or_insert(0) += weight;
                size += weight;
            }
            *peers.entry(peer).or_insert(0) += size;
            *cgroups.entry(cgroup).or_insert(0) += size;
            self.groups.push((peer, cgroup));
        }
        (self.peer_count, self.cgroup_count) = (peers.len(), cgroups.len());
        self.peers.select(snapshot.at, peers);
        self.interfaces.select(snapshot.at, interfaces);
        self.cgroups.select(snapshot.at, cgroups);
        self.name_cgroups(snapshot);
        if self.settings.top_flows == 0 {
            return;
        }
        let living = snapshot.connections.iter().map(|connection| (connection.id, size(connection)));
        self.top.select(snapshot.at, living.collect());
        let shown = snapshot.connections.iter().filter(|connection| self.top.has(&connection.id));
        let largest = shown.flat_map(|connection| {
            let mut all: Vec<&Subflow> = connection.subflows.iter().collect();
            all.sort_by_key(|subflow| (subflow.closed.is_some(), std::cmp::Reverse(weight(subflow))));
            let key = |subflow: &Subflow| ((connection.id, subflow.id), weight(subflow));
            all.into_iter().take(SUBFLOWS_EACH).map(key).collect::<Vec<_>>()
        });
        self.top_subflows.select(snapshot.at, largest.collect());
    }

    /// Paths of those that are shown.
    fn name_cgroups(&mut self, snapshot: &Snapshot) {
        let shown = &self.cgroups;
        self.cgroup_paths.retain(|key, _| shown.has(&Some(*key)));
        let unnamed = |key: u64| !self.cgroup_paths.contains_key(&key);
        let mut missing: HashSet<u64> =
            shown.shown().filter_map(|(key, _)| key).filter(|key| unnamed(*key)).collect();
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

/// A digest of its path, which a key that is copied around can be; the path itself is kept for those that are shown.
fn cgroup(connection: &Connection) -> Option<u64> {
    connection.cgroup.as_deref().map(|path| {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        hasher.finish()
    })
}

fn size(connection: &Connection) -> u64 {
    connection.subflows.iter().map(weight).sum()
}

fn weight(subflow: &Subflow) -> u64 {
    (subflow.bytes_sent + subflow.bytes_received).0
}

fn peer(connection: &Connection) -> Option<IpAddr> {
    connection.remote.map(|remote| remote.ip())
}

fn labelled<K: Copy + Eq + std::hash::Hash + Ord>(
    sums: &Bounded<K>,
    label: impl Fn(K) -> Option<String>,
) -> Vec<(String, Sums)> {
    let own =
        sums.shown().map(|(key, sums)| (label(key).unwrap_or_else(|| UNKNOWN.to_owned()), sums.clone()));
    let mut all: Vec<_> = own.collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.push((OTHER.to_owned(), sums.other().clone()));
    all
}
