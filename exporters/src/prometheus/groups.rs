// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of connections by peer, control group and namespace of pods. The label values whose connections carry most payload have series of
//! their own.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::net::IpAddr;

use jiff::Timestamp;
use mpwatch_model::capacity::shrink_map;
use mpwatch_model::flow::connection::Connection;

use super::bounded::{BoundedSums, Limits};
use super::values::{Increase, MetricValues};

/// Maximum number of peers, of control groups and of namespaces of pods with series of their own.
const MAX_SERIES: usize = 100;

/// Digest of a text: a key that is `Copy`. `None`: unknown.
type TextKey = Option<u64>;

/// The groups of a connection, kept while it is idle.
#[derive(Clone, Copy)]
pub(super) struct Group {
    peer: Option<IpAddr>,
    cgroup: TextKey,
    pod_namespace: TextKey,
    /// Payload in both directions.
    pub(super) size: u64,
}

struct BySize<K> {
    sums: BoundedSums<K>,
    /// Payload of the connections with each label value, and their number.
    sizes: HashMap<K, u64>,
    connections: HashMap<K, usize>,
}

impl<K: Copy + Eq + Hash + Ord> Default for BySize<K> {
    fn default() -> Self {
        let limits = Limits { max_present: MAX_SERIES, max_total: MAX_SERIES, linger: None };
        Self { sums: BoundedSums::new(limits), sizes: HashMap::new(), connections: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash + Ord> BySize<K> {
    /// Adds a connection with this payload, or removes a connection that was added.
    fn change(&mut self, key: K, size: u64, is_added: bool) {
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
    peers: BySize<Option<IpAddr>>,
    cgroups: BySize<TextKey>,
    pod_namespaces: BySize<TextKey>,
    /// The texts of all keys in use.
    texts: HashMap<u64, String>,
}

impl Groups {
    /// Adds a connection with this payload. Returns its groups.
    pub(super) fn list(&mut self, connection: &Connection, size: u64) -> Group {
        let peer = connection.remote.map(|remote| remote.ip());
        let cgroup = self.key(connection.cgroup.as_deref());
        let pod_namespace = self.key(connection.pod.as_ref().map(|pod| pod.namespace.as_str()));
        let group = Group { peer, cgroup, pod_namespace, size };
        self.change(group, true);
        group
    }

    /// Adds a connection, or removes a connection that was added.
    pub(super) fn change(&mut self, Group { peer, cgroup, pod_namespace, size }: Group, is_added: bool) {
        self.peers.change(peer, size, is_added);
        self.cgroups.change(cgroup, size, is_added);
        self.pod_namespaces.change(pod_namespace, size, is_added);
    }

    fn key(&mut self, text: Option<&str>) -> TextKey {
        text.map(|text| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let key = hasher.finish();
            self.texts.entry(key).or_insert_with(|| text.to_owned());
            key
        })
    }

    /// Selects by size the label values with series of their own until the next snapshot.
    pub(super) fn select(&mut self, at: Timestamp) {
        self.peers.sums.select(at, &self.peers.sizes);
        let texts = [&mut self.cgroups, &mut self.pod_namespaces];
        for BySize { sums, sizes, .. } in texts {
            sums.select(at, sizes);
        }
        let texts = [&self.cgroups, &self.pod_namespaces];
        let is_used = |key| texts.iter().any(|all| all.sizes.contains_key(&key) || all.sums.contains(&key));
        self.texts.retain(|key, _| is_used(Some(*key)));
    }

    /// Adds the increase of a connection to the sums of its groups.
    pub(super) fn add(&mut self, group: &Group, increase: &Increase) {
        self.peers.sums.add(group.peer, increase);
        self.cgroups.sums.add(group.cgroup, increase);
        self.pod_namespaces.sums.add(group.pod_namespace, increase);
    }

    /// Whether the latest selection added series.
    pub(super) fn has_added(&self) -> bool {
        let texts = [&self.cgroups, &self.pod_namespaces];
        !self.peers.sums.added.is_empty() || texts.iter().any(|all| !all.sums.added.is_empty())
    }

    /// Sets the values of all groups, and adds the number of label values that were merged.
    pub(super) fn write(&self, values: &mut MetricValues) {
        let text = |key: TextKey| self.texts.get(&key?).cloned();
        values.peers = self.peers.sums.labelled(|key| key.map(|address| address.to_string()));
        values.cgroups = self.cgroups.sums.labelled(text);
        let pods = &self.pod_namespaces.sums;
        // No series before the first pod.
        if pods.merged > 0 || pods.iter().any(|(key, _)| key.is_some()) {
            values.pod_namespaces = pods.labelled(text);
        }
        values.merged += self.peers.sums.merged + self.cgroups.sums.merged + pods.merged;
    }
}
