// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of network namespaces and control groups, which the kernel knows by numbers. Short jobs leave theirs behind: only names that were
//! used lately are kept.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use mpwatch_model::event::{CgroupName, NetnsName};
use mpwatch_model::id::NetnsCookie;

/// Maximum number of names, each for namespaces and for control groups; about 150 bytes each. When it is exceeded, the least recently used
/// half is discarded. A name that is used later is reported again: that of a namespace because the agent remembers half as many as reported
/// (`MAX_SEEN`), that of a control group once per minute (cgroup.bpf.c).
const MAX_NAMES: usize = 16_384;

#[derive(Default)]
pub(super) struct Names {
    netns: Recent<NetnsCookie>,
    /// From recordings of older versions, which lack the cookie.
    netns_by_inode: Recent<u32>,
    cgroups: Recent<u64>,
    changed: Changed,
}

/// What has got another name.
#[derive(Default)]
pub(super) struct Changed {
    netns: HashSet<NetnsCookie>,
    inodes: HashSet<u32>,
    cgroups: HashSet<u64>,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.netns.is_empty() && self.inodes.is_empty() && self.cgroups.is_empty()
    }

    /// Whether a connection with this namespace and control group is concerned.
    pub(super) fn concerns(&self, netns: NetnsCookie, inode: u32, cgroup: u64) -> bool {
        self.netns.contains(&netns) || self.inodes.contains(&inode) || self.cgroups.contains(&cgroup)
    }
}

impl Names {
    pub(super) fn add_netns(&mut self, name: &NetnsName) {
        match name.netns {
            Some(netns) if self.netns.insert(netns, &name.name) => drop(self.changed.netns.insert(netns)),
            None if self.netns_by_inode.insert(name.inode, &name.name) => {
                self.changed.inodes.insert(name.inode);
            }
            _ => {}
        }
    }

    pub(super) fn add_cgroup(&mut self, name: &CgroupName) {
        if self.cgroups.insert(name.id, &name.path) {
            self.changed.cgroups.insert(name.id);
        }
    }

    /// What has got another name since the last call.
    pub(super) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    /// The name of a namespace, or its inode as `net:[INODE]`.
    pub(super) fn netns(&self, netns: NetnsCookie, inode: u32) -> Arc<str> {
        let known = self.netns.get(netns).or_else(|| self.netns_by_inode.get(inode));
        known.unwrap_or_else(|| format!("net:[{inode}]").into())
    }

    pub(super) fn cgroup(&self, id: u64) -> Option<Arc<str>> {
        self.cgroups.get(id)
    }
}

/// Names by number, each with its last use.
struct Recent<K> {
    names: HashMap<K, (Arc<str>, Cell<u64>)>,
    /// Number of the latest use.
    uses: Cell<u64>,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self { names: HashMap::new(), uses: Cell::default() }
    }
}

impl<K: Copy + Eq + Hash> Recent<K> {
    /// Returns whether it had another name, or none.
    fn insert(&mut self, key: K, name: &str) -> bool {
        if let Some((known, used)) = self.names.get(&key)
            && **known == *name
        {
            used.set(self.next_use());
            return false;
        }
        self.names.insert(key, (name.into(), Cell::new(self.next_use())));
        if self.names.len() > MAX_NAMES {
            let mut uses: Vec<u64> = self.names.values().map(|(_, used)| used.get()).collect();
            let (_, middle, _) = uses.select_nth_unstable(MAX_NAMES / 2);
            self.names.retain(|_, (_, used)| used.get() > *middle);
            self.names.shrink_to(MAX_NAMES);
        }
        true
    }

    fn get(&self, key: K) -> Option<Arc<str>> {
        let (name, used) = self.names.get(&key)?;
        used.set(self.next_use());
        Some(Arc::clone(name))
    }

    /// No two uses have the same number, so which names are discarded does not depend on the order of the map.
    fn next_use(&self) -> u64 {
        self.uses.set(self.uses.get() + 1);
        self.uses.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_used_stay_and_others_are_discarded_in_time() {
        let mut names = Names::default();
        let cgroup = |id: u64| CgroupName { id, path: format!("/job-{id}.service") };
        let netns = |n: u64| NetnsName { netns: Some(NetnsCookie(n)), inode: 1, name: format!("job-{n}") };
        names.add_cgroup(&cgroup(0));
        names.add_netns(&netns(0));
        for number in 1..100_000 {
            names.add_cgroup(&cgroup(number));
            names.add_netns(&netns(number));
            assert_eq!(names.cgroup(0).as_deref(), Some("/job-0.service"), "after {number} others");
            assert_eq!(&*names.netns(NetnsCookie(0), 7), "job-0");
            assert!(names.cgroup(number).is_some());
        }
        let kept = [names.cgroups.names.len(), names.netns.names.len()];
        assert!(kept.iter().all(|kept| (MAX_NAMES / 2..=MAX_NAMES).contains(kept)), "{kept:?}");
        assert_eq!((names.cgroup(1), names.netns(NetnsCookie(1), 7)), (None, "net:[7]".into()));
    }
}
