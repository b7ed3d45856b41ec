// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that people use for what the kernel only numbers: namespaces and control groups. Looked up when a number first
//! turns up in the event stream, and told as events, so that a recording carries them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::namespace;
use mpwatch_model::event::{CgroupName, KernelEvent, NetnsName};
use mpwatch_model::id::NetnsCookie;

/// Directories looked into for one control group at the most, so that a huge tree cannot hold up a tick.
const CGROUP_DIRECTORIES: usize = 20_000;

/// What has been named and what still waits for a name.
pub(crate) struct Names {
    cgroup_root: Option<PathBuf>,
    /// By cookie: the kernel gives a later namespace the inode of an earlier one.
    known_netns: HashSet<NetnsCookie>,
    known_cgroups: HashSet<u64>,
    wanted_netns: HashMap<u32, NetnsCookie>,
    wanted_cgroups: HashSet<u64>,
}

impl Names {
    /// Finds the cgroup2 mount; without one, control groups stay unnamed.
    pub(crate) fn new() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self {
            cgroup_root: cgroup2_mount(&mounts),
            known_netns: HashSet::new(),
            known_cgroups: HashSet::new(),
            wanted_netns: HashMap::new(),
            wanted_cgroups: HashSet::new(),
        }
    }

    /// Notes the numbers in an event.
    pub(crate) fn note(&mut self, event: &KernelEvent) {
        let (netns, inode, cgroup) = match event {
            KernelEvent::Subflow(record) => (record.netns, record.netns_inode, record.cgroup),
            KernelEvent::Connection(record) => (record.netns, record.netns_inode, record.cgroup),
            _ => return,
        };
        if !self.known_netns.contains(&netns) {
            self.wanted_netns.insert(inode, netns);
        }
        if cgroup != 0 && !self.known_cgroups.contains(&cgroup) {
            self.wanted_cgroups.insert(cgroup);
        }
    }

    /// Names for what was noted since the last call. What has no name is not asked for again.
    pub(crate) fn look_up(&mut self) -> Vec<KernelEvent> {
        let mut events = Vec::new();
        if !self.wanted_netns.is_empty() {
            for found in namespace::all() {
                if let (Some(&netns), Some(name)) = (self.wanted_netns.get(&found.inode), found.name) {
                    events.push(KernelEvent::Netns(NetnsName {
                        netns: Some(netns),
                        inode: found.inode,
                        name,
                    }));
                }
            }
            self.known_netns.extend(self.wanted_netns.drain().map(|(_, netns)| netns));
        }
        if let (Some(root), false) = (&self.cgroup_root, self.wanted_cgroups.is_empty()) {
            let found = find_cgroups(root, &self.wanted_cgroups);
            events.extend(found.into_iter().map(|(id, path)| KernelEvent::Cgroup(CgroupName { id, path })));
        }
        self.known_cgroups.extend(self.wanted_cgroups.drain());
        events
    }
}

/// Never assume its path: it may be mounted beside version 1 controllers.
fn cgroup2_mount(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let is_cgroup2 = after.split(' ').next() == Some("cgroup2");
        is_cgroup2.then(|| before.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

/// The id of a control group is the inode of its directory.
fn find_cgroups(root: &Path, wanted: &HashSet<u64>) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    let mut looked_at = 0;
    while let Some(directory) = directories.pop() {
        looked_at += 1;
        if looked_at > CGROUP_DIRECTORIES || found.len() == wanted.len() {
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
    fn the_cgroup2_mount_is_found_wherever_it_is() {
        let hybrid = "30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                      31 30 0:27 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n\
                      40 30 0:36 / /sys/fs/cgroup/unified rw,nosuid shared:11 - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(hybrid), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(cgroup2_mount(""), None);
    }

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
