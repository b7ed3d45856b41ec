// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of connections by a text that they have in common: the path of a control group, the namespace of a pod.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::snapshot::Snapshot;

use super::bounded::{BoundedSums, Limits};
use super::sizes::Sizes;
use super::sums::Increase;
use super::values::LabelledValues;

/// Digest of a text: a key that can be copied. `None`: unknown.
pub(super) type TextKey = Option<u64>;

pub(super) struct SumsByText {
    /// The text of a connection.
    read: fn(&Connection) -> Option<&str>,
    sums: BoundedSums<TextKey>,
    /// Texts with series of their own.
    texts: HashMap<u64, String>,
    /// The payload of all open connections.
    sizes: Sizes<TextKey>,
}

impl SumsByText {
    pub(super) fn new(limits: Limits, read: fn(&Connection) -> Option<&str>) -> Self {
        Self { read, sums: BoundedSums::new(limits), texts: HashMap::new(), sizes: Sizes::default() }
    }

    pub(super) fn key(&self, connection: &Connection) -> TextKey {
        (self.read)(connection).map(|text| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Adds an open connection with this payload.
    pub(super) fn list(&mut self, key: TextKey, size: u64) {
        self.sizes.add(key, size);
    }

    /// Removes a connection that was listed with this payload.
    pub(super) fn unlist(&mut self, key: TextKey, size: u64) {
        self.sizes.remove(key, size);
    }

    /// Selects by size the texts with series of their own until the next snapshot.
    pub(super) fn select(&mut self, snapshot: &Snapshot) {
        self.sums.select(snapshot.at, self.sizes.all());
        self.texts.retain(|key, _| self.sums.contains(&Some(*key)));
        let keys = self.sums.iter().filter_map(|(key, _)| key);
        let mut missing: HashSet<u64> = keys.filter(|key| !self.texts.contains_key(key)).collect();
        // Idle connections are built, so they come last; few of them until all texts are known.
        let idle = snapshot.idle_connections().map(Cow::Owned);
        for connection in snapshot.connections.iter().map(Cow::Borrowed).chain(idle) {
            if missing.is_empty() {
                break;
            }
            if let (Some(key), Some(text)) = (self.key(&connection), (self.read)(&connection))
                && missing.remove(&key)
            {
                self.texts.insert(key, text.to_owned());
            }
        }
    }

    pub(super) fn add(&mut self, key: TextKey, increase: &Increase) {
        self.sums.add(key, increase);
    }

    /// Whether the latest selection added a text.
    pub(super) fn has_added(&self) -> bool {
        !self.sums.added().is_empty()
    }

    /// How many texts were merged into the others so far.
    pub(super) fn merged(&self) -> u64 {
        self.sums.merged
    }

    pub(super) fn values(&self) -> Vec<LabelledValues> {
        self.sums.labelled(|key| self.texts.get(&key?).cloned())
    }

    /// As [`Self::values`], but none before the first known text.
    pub(super) fn values_if_any(&self) -> Vec<LabelledValues> {
        let is_any = self.sums.merged > 0 || self.sums.iter().any(|(key, _)| key.is_some());
        if is_any { self.values() } else { Vec::new() }
    }
}
