// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sums that outlive their flows: fed with every snapshot, in order. What a flow has carried stays in them when it ends.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;

use mpwatch_model::connection::Connection;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::metric::distribution::{OF_CONNECTIONS, OF_SUBFLOWS};
use mpwatch_model::metric::happening::{TO_CONNECTIONS, TO_SUBFLOWS};
use mpwatch_model::metric::{CONNECTION, CONNECTION_IDENTITY, SUBFLOW, SUBFLOW_IDENTITY, Unit};
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
    interfaces: Bounded<Option<[u8; 16]>>,
    peers: Bounded<Option<IpAddr>>,
    cgroups: Bounded<Option<u64>>,
    cgroup_paths: HashMap<u64, String>,
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
            connections: Growth::new(CONNECTION, TO_CONNECTIONS, OF_CONNECTIONS),
            subflows: Growth::new(SUBFLOW, TO_SUBFLOWS, OF_SUBFLOWS),
            host: counters(CONNECTION).map(|row| none_yet(row.unit)).collect(),
            interfaces: Bounded::new(keep(INTERFACES)),
            peers: Bounded::new(keep(PEERS)),
            cgroups: Bounded::new(keep(CGROUPS)),
            cgroup_paths: HashMap::new(),
            top: Top::new(settings.top_flows, CONNECTION, &CONNECTION_IDENTITY),
            top_subflows: Top::new(settings.top_flows * SUBFLOWS_EACH, SUBFLOW, &SUBFLOW_IDENTITY),
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
        for connection in &snapshot.connections {
            self.connections.look(connection.id, connection, connection.seen_open);
            let grown = &self.connections.grown;
            add(&mut self.host, grown);
            self.peers.charge(peer(connection), grown);
            self.cgroups.charge(cgroup(connection), grown);
            self.top.charge(connection.id, connection, grown);
            for subflow in &connection.subflows {
                let key = (connection.id, subflow.id);
                self.subflows.look(key, subflow, subflow.created_at.is_some());
                let grown = &self.subflows.grown;
                self.interfaces.charge(interface(subflow), grown);
                self.top_subflows.charge(key, subflow, grown);
            }
        }
        self.connections.end();
        self.subflows.end();
    }

    /// As they are now.
    pub fn figures(&self) -> Figures {
        let flows = (self.settings.top_flows > 0).then(|| {
            let ids = |id: &ConnectionId| vec![id.to_string()];
            let both = |(connection, subflow): &SubflowKey| vec![connection.to_string(), subflow.to_string()];
            (self.top.shown(ids), self.top_subflows.shown(both))
        });
        let name = |key: Option<[u8; 16]>| {
            key.map(|bytes| String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
        };
        Figures {
            host: self.host.clone(),
            happened_to_connections: self.connections.counts.clone(),
            happened_to_subflows: self.subflows.counts.clone(),
            interfaces: labelled(&self.interfaces, name),
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
        let mut peers = HashMap::new();
        let mut interfaces = HashMap::new();
        for connection in &snapshot.connections {
            *peers.entry(peer(connection)).or_insert(0) += size(connection);
            for subflow in &connection.subflows {
                *interfaces.entry(interface(subflow)).or_insert(0) += weight(subflow);
            }
        }
        self.peers.select(snapshot.at, peers);
        self.interfaces.select(snapshot.at, interfaces);
        self.select_cgroups(snapshot);
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

    fn select_cgroups(&mut self, snapshot: &Snapshot) {
        let mut living = HashMap::new();
        for connection in &snapshot.connections {
            *living.entry(cgroup(connection)).or_insert(0) += size(connection);
        }
        self.cgroups.select(snapshot.at, living);
        let shown = &self.cgroups;
        self.cgroup_paths.retain(|key, _| shown.has(&Some(*key)));
        for connection in &snapshot.connections {
            if let (Some(key), Some(path)) = (cgroup(connection), &connection.cgroup)
                && shown.has(&Some(key))
                && !self.cgroup_paths.contains_key(&key)
            {
                self.cgroup_paths.insert(key, path.clone());
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

/// Its name, in a form that can be ordered. Interfaces of the same name in several namespaces are summed.
fn interface(subflow: &Subflow) -> Option<[u8; 16]> {
    subflow.interface.map(|name| {
        let mut bytes = [0; 16];
        let text = name.text();
        bytes.iter_mut().zip(text.bytes()).for_each(|(slot, byte)| *slot = byte);
        bytes
    })
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
