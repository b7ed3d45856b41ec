// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of connections by peer, control group and namespace of pods, and accepted connections by listener. Label values whose connections carry
//! the most payload have series of their own.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;

use jiff::Timestamp;
use mpwatch_model::capacity::shrink_map;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_model::metric::event_counter::{CONNECTION_EVENTS, EventCounter};

use super::bounded::{BoundedSums, Limits};
use super::values::{Increase, MetricValues, UNKNOWN};

/// Maximum number of peers, control groups, namespaces of pods and listeners with series of their own.
const MAX_SERIES: usize = 100;

/// A label value as a `Copy` type. `None`: unknown.
type Key = Option<Label>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Label {
    Address(IpAddr),
    /// Digest of a text.
    Text(u64),
}

/// The peer, control group, namespace of pods and listener of a connection, kept while it is idle.
#[derive(Clone, Copy)]
pub(super) struct Group {
    keys: [Key; 4],
    /// Payload in both directions, in bytes.
    pub(super) size: u64,
}

struct BySize {
    sums: BoundedSums<Key>,
    /// Payload in bytes of the connections with each label value, and their number.
    sizes: HashMap<Key, u64>,
    connections: HashMap<Key, usize>,
}

impl Default for BySize {
    fn default() -> Self {
        let limits = Limits { max_present: MAX_SERIES, max_total: MAX_SERIES, linger: None };
        Self { sums: BoundedSums::new(limits), sizes: HashMap::new(), connections: HashMap::new() }
    }
}

impl BySize {
    /// Adds a connection with this payload, or removes a connection that was added.
    fn change(&mut self, key: Key, size: u64, is_added: bool) {
        let (sum, connections) =
            (self.sizes.entry(key).or_default(), self.connections.entry(key).or_default());
        if is_added {
            (*sum, *connections) = (*sum + size, *connections + 1);
        } else {
            (*sum, *connections) = (sum.saturating_sub(size), connections.saturating_sub(1));
        }
        if *connections == 0 {
            self.sizes.remove(&key);
            self.connections.remove(&key);
            shrink_map(&mut self.sizes);
            shrink_map(&mut self.connections);
        }
    }
}

#[derive(Default)]
pub(super) struct Groups {
    /// By peer, by control group, by namespace of pods, and by listener. The sums by listener are counts of accepted connections.
    all: [BySize; 4],
    /// The texts of all keys in use.
    texts: HashMap<u64, String>,
}

impl Groups {
    /// Adds a connection with this payload. Returns its groups.
    pub(super) fn list(&mut self, connection: &Connection, size: u64) -> Group {
        let peer = connection.remote.map(|remote| Label::Address(remote.ip()));
        let cgroup = self.key(connection.cgroup.as_deref());
        let pod_namespace = self.key(connection.pod.as_ref().map(|pod| pod.namespace.as_str()));
        let listener = self.key(listener(connection).as_deref());
        let group = Group { keys: [peer, cgroup, pod_namespace, listener], size };
        self.change(group, true);
        group
    }

    fn key(&mut self, text: Option<&str>) -> Key {
        let text = text?;
        let digest = BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
        self.texts.entry(digest).or_insert_with(|| text.to_owned());
        Some(Label::Text(digest))
    }

    /// Adds a connection, or removes a connection that was added.
    pub(super) fn change(&mut self, group: Group, is_added: bool) {
        self.all.iter_mut().zip(group.keys).for_each(|(all, key)| all.change(key, group.size, is_added));
    }

    /// Selects by size the label values with series of their own until the next snapshot.
    pub(super) fn select(&mut self, at: Timestamp) {
        self.all.iter_mut().for_each(|BySize { sums, sizes, .. }| sums.select(at, sizes));
        let is_used =
            |key| self.all.iter().any(|all| all.sizes.contains_key(&key) || all.sums.contains(&key));
        self.texts.retain(|digest, _| is_used(Some(Label::Text(*digest))));
    }

    /// Adds the increase of a connection to the sums of its groups.
    pub(super) fn add(&mut self, group: &Group, increase: &Increase) {
        let [groups @ .., listeners] = &mut self.all;
        groups.iter_mut().zip(group.keys).for_each(|(all, key)| all.sums.add(key, increase));
        if let Some(counts) = event_by_listener().and_then(|(number, _)| increase.counts_of(number)) {
            listeners.sums.add(group.keys[3], &counts);
        }
    }

    /// Whether the latest selection added series.
    pub(super) fn has_added(&self) -> bool {
        self.all.iter().any(|all| !all.sums.added.is_empty())
    }

    /// Sets the values of all groups, and adds the number of label values that were merged.
    pub(super) fn write(&self, values: &mut MetricValues) {
        let text = |key: Key| match key? {
            Label::Address(address) => Some(address.to_string()),
            Label::Text(digest) => self.texts.get(&digest).cloned(),
        };
        let [peers, cgroups, pods, listeners] = self.all.each_ref().map(|all| &all.sums);
        (values.peers, values.cgroups) = (peers.labelled(text), cgroups.labelled(text));
        // There are no series until a pod is known.
        if pods.merged > 0 || pods.iter().any(|(key, _)| key.is_some()) {
            values.pod_namespaces = pods.labelled(text);
        }
        values.listener_events = listeners.labelled(text);
        // Connections that this host opened have no listener.
        values.listener_events.retain(|sums| sums.labels != [UNKNOWN]);
        values.merged += peers.merged + cgroups.merged + pods.merged + listeners.merged;
    }
}

/// The counter of connection events that is exported by listener, and its number.
pub(super) fn event_by_listener() -> Option<(usize, &'static EventCounter<Connection>)> {
    CONNECTION_EVENTS.iter().enumerate().find(|(_, event)| event.apart.is_some())
}

/// The listener that accepted a connection: its program and port. `None`: this host opened the connection.
fn listener(connection: &Connection) -> Option<String> {
    let port = connection.local.filter(|_| connection.role == Some(Role::Server))?.port();
    let program = connection.process.as_ref().map_or_else(Default::default, |process| process.comm.text());
    Some(format!("{program}:{port}"))
}
