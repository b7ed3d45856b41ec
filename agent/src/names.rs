// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of network namespaces and control groups. A number is resolved once, when it first appears; recordings have the name as an event.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::namespace;
use mpwatch_model::event::{CgroupName, KernelEvent, NetnsName};
use mpwatch_model::id::NetnsCookie;

use crate::procfs;

/// Maximum number of directories that one search for control groups visits, so that a huge tree cannot delay a tick.
const MAX_CGROUP_DIRECTORIES: usize = 20_000;

/// Numbers that were resolved, and those that wait for it.
#[derive(Default)]
pub(crate) struct Names {
    cgroup_root: Option<PathBuf>,
    /// By cookie: the kernel reuses inodes of namespaces.
    known_netns: HashSet<NetnsCookie>,
    known_cgroups: HashSet<u64>,
    new_netns: HashMap<u32, NetnsCookie>,
    new_cgroups: HashSet<u64>,
}

impl Names {
    /// Without a cgroup2 mount, control groups stay unnamed.
    pub(crate) fn new() -> Self {
        let mounts = procfs::read("/proc/self/mounts").unwrap_or_default();
        Self { cgroup_root: procfs::cgroup2_mount(&mounts), ..Self::default() }
    }

    /// Notes the numbers in an event.
    pub(crate) fn note(&mut self, event: &KernelEvent) {
        let (netns, inode, cgroup) = match event {
            KernelEvent::Subflow(record) => (record.netns, record.netns_inode, record.cgroup),
            KernelEvent::Connection(record) => (record.netns, record.netns_inode, record.cgroup),
            _ => return,
        };
        if !self.known_netns.contains(&netns) {
            self.new_netns.insert(inode, netns);
        }
        if cgroup != 0 && !self.known_cgroups.contains(&cgroup) {
            self.new_cgroups.insert(cgroup);
        }
    }

    /// Names for the numbers noted since the last call. A number without a name is not looked up again.
    pub(crate) fn resolve(&mut self) -> Vec<KernelEvent> {
        let mut events = Vec::new();
        if !self.new_netns.is_empty() {
            for found in namespace::all() {
                if let (Some(netns), Some(name)) = (self.new_netns.get(&found.inode).copied(), found.name) {
                    let name = NetnsName { netns: Some(netns), inode: found.inode, name };
                    events.push(KernelEvent::Netns(name));
                }
            }
            self.known_netns.extend(self.new_netns.drain().map(|(_, netns)| netns));
        }
        if let (Some(root), false) = (&self.cgroup_root, self.new_cgroups.is_empty()) {
            let found = find_cgroups(root, &self.new_cgroups);
            events.extend(found.into_iter().map(|(id, path)| KernelEvent::Cgroup(CgroupName { id, path })));
        }
        self.known_cgroups.extend(self.new_cgroups.drain());
        events
    }
}

/// Paths of control groups by id, which is the inode of the group's directory.
fn find_cgroups(root: &Path, wanted: &HashSet<u64>) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    let mut visited = 0;
    while let Some(directory) = directories.pop() {
        visited += 1;
        if visited > MAX_CGROUP_DIRECTORIES || found.len() == wanted.len() {
            break;
        }
        let Ok(meta) = fs::metadata(&directory) else { continue };
        if wanted.contains(&meta.ino()) {
            let below = directory.strip_prefix(root).unwrap_or(&directory);
            found.push((meta.ino(), format!("/{}", below.display())));
        }
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        let children =
            entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.extend(children.map(|entry| entry.path()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_is_found_by_the_inode_of_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let nested = root.path().join("system.slice/nginx.service");
        fs::create_dir_all(&nested).unwrap();
        let id = fs::metadata(&nested).unwrap().ino();
        let found = find_cgroups(root.path(), &HashSet::from([id, 1]));
        assert_eq!(found, [(id, "/system.slice/nginx.service".to_owned())]);
    }
}
