// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of network namespaces, control groups and their pods, which the kernel identifies by numbers. Only recently used names are kept,
//! because short jobs leave many names behind.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use mpwatch_model::host::names::Pod;
use mpwatch_model::id::NetnsCookie;
use mpwatch_model::kernel::event::{CgroupName, NetnsName, PodName};

/// Maximum number of names (about 150 bytes each) of namespaces, of control groups and of pods; above it, the least recently used half is
/// discarded. A discarded name that is used later is reported again: names of namespaces because the agent remembers only half as many
/// (`MAX_NAMESPACES`), names of control groups and pods because they are reported once per minute (cgroup.bpf.c).
const MAX_NAMES: usize = 16_384;

#[derive(Default)]
pub(super) struct Names {
    netns: Recent<NetnsCookie, str>,
    cgroups: Recent<u64, str>,
    pods: Recent<u64, Pod>,
    changed: Changed,
}

/// Namespaces and control groups whose names have changed.
#[derive(Default)]
pub(super) struct Changed {
    netns: HashSet<NetnsCookie>,
    /// Control groups whose own name, or whose pod, has changed.
    cgroups: HashSet<u64>,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.netns.is_empty() && self.cgroups.is_empty()
    }

    /// Whether a name of a connection with this namespace and control group has changed.
    pub(super) fn concerns(&self, netns: NetnsCookie, cgroup: u64) -> bool {
        self.netns.contains(&netns) || self.cgroups.contains(&cgroup)
    }
}

impl Names {
    pub(super) fn add_netns(&mut self, name: &NetnsName) {
        let is_new = self.netns.insert(name.netns, &*name.name);
        self.changed.netns.extend(is_new.then_some(name.netns));
    }

    pub(super) fn add_cgroup(&mut self, name: &CgroupName) {
        let is_new = self.cgroups.insert(name.id, &*name.path);
        self.changed.cgroups.extend(is_new.then_some(name.id));
    }

    pub(super) fn add_pod(&mut self, name: &PodName) {
        let is_new = self.pods.insert(name.cgroup, &name.pod);
        self.changed.cgroups.extend(is_new.then_some(name.cgroup));
    }

    /// Namespaces and control groups whose names have changed since the last call.
    pub(super) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    /// The name of a namespace, or its inode as `net:[INODE]`.
    pub(super) fn netns(&self, netns: NetnsCookie, inode: u32) -> Arc<str> {
        self.netns.get(netns).unwrap_or_else(|| format!("net:[{inode}]").into())
    }

    pub(super) fn cgroup(&self, id: u64) -> Option<Arc<str>> {
        self.cgroups.get(id)
    }

    /// The pod of a control group.
    pub(super) fn pod(&self, cgroup: u64) -> Option<Arc<Pod>> {
        self.pods.get(cgroup)
    }
}

/// Names by number, each with the number of its last use.
struct Recent<K, V: ?Sized> {
    names: HashMap<K, (Arc<V>, Cell<u64>)>,
    /// Number of the latest use.
    uses: Cell<u64>,
}

impl<K, V: ?Sized> Default for Recent<K, V> {
    fn default() -> Self {
        Self { names: HashMap::new(), uses: Cell::default() }
    }
}

impl<K: Copy + Eq + Hash, V: PartialEq + ToOwned + ?Sized> Recent<K, V>
where
    Arc<V>: From<V::Owned>,
{
    /// Sets a name. Returns whether it is new or has changed.
    fn insert(&mut self, key: K, name: &V) -> bool {
        if let Some((known, used)) = self.names.get(&key)
            && **known == *name
        {
            used.set(self.next_use());
            return false;
        }
        self.names.insert(key, (name.to_owned().into(), Cell::new(self.next_use())));
        if self.names.len() > MAX_NAMES {
            let mut uses: Vec<u64> = self.names.values().map(|(_, used)| used.get()).collect();
            let (_, middle, _) = uses.select_nth_unstable(MAX_NAMES / 2);
            self.names.retain(|_, (_, used)| used.get() > *middle);
            self.names.shrink_to(MAX_NAMES);
        }
        true
    }

    fn get(&self, key: K) -> Option<Arc<V>> {
        let (name, used) = self.names.get(&key)?;
        used.set(self.next_use());
        Some(Arc::clone(name))
    }

    /// Numbers the uses. Every number is unique, so the choice of discarded names does not depend on the order of the map.
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
        let netns = |n: u64| NetnsName { netns: NetnsCookie(n), inode: 1, name: format!("job-{n}") };
        names.add_cgroup(&cgroup(0));
        names.add_netns(&netns(0));
        let pod = |n: u64| Pod {
            namespace: "shop".to_owned(),
            name: format!("web-{n}"),
            uid: n.to_string(),
            container: None,
        };
        names.add_pod(&PodName { cgroup: 0, pod: pod(0) });
        for number in 1..100_000 {
            names.add_cgroup(&cgroup(number));
            names.add_netns(&netns(number));
            names.add_pod(&PodName { cgroup: number, pod: pod(number) });
            assert_eq!(names.pod(0).as_deref(), Some(&pod(0)));
            assert_eq!(names.cgroup(0).as_deref(), Some("/job-0.service"), "after {number} others");
            assert_eq!(&*names.netns(NetnsCookie(0), 7), "job-0");
            assert!(names.cgroup(number).is_some());
        }
        let kept = [names.cgroups.names.len(), names.netns.names.len(), names.pods.names.len()];
        assert!(kept.iter().all(|kept| (MAX_NAMES / 2..=MAX_NAMES).contains(kept)), "{kept:?}");
        assert_eq!((names.cgroup(1), names.netns(NetnsCookie(1), 7)), (None, "net:[7]".into()));
    }

    #[test]
    fn a_container_that_becomes_known_later_concerns_the_connections_of_the_control_group() {
        let mut names = Names::default();
        let pod = |container: Option<&str>| PodName {
            cgroup: 5,
            pod: Pod {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                uid: "u".to_owned(),
                container: container.map(str::to_owned),
            },
        };
        for (container, is_new) in
            [(None, true), (None, false), (Some("nginx"), true), (Some("nginx"), false)]
        {
            names.add_pod(&pod(container));
            assert_eq!(names.take_changed().concerns(NetnsCookie(1), 5), is_new, "{container:?}");
        }
        assert_eq!(names.pod(5).as_deref(), Some(&pod(Some("nginx")).pod));
    }
}
