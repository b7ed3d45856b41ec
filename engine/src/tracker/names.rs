// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of network namespaces and control groups, which the kernel knows by numbers.

use std::collections::HashMap;

use mpwatch_model::event::{CgroupName, NetnsName};
use mpwatch_model::id::NetnsCookie;

#[derive(Default)]
pub(super) struct Names {
    netns: HashMap<NetnsCookie, String>,
    /// From recordings of older versions, which lack the cookie.
    netns_by_inode: HashMap<u32, String>,
    cgroups: HashMap<u64, String>,
}

impl Names {
    pub(super) fn add_netns(&mut self, name: &NetnsName) {
        match name.netns {
            Some(netns) => self.netns.insert(netns, name.name.clone()),
            None => self.netns_by_inode.insert(name.inode, name.name.clone()),
        };
    }

    pub(super) fn add_cgroup(&mut self, name: &CgroupName) {
        self.cgroups.insert(name.id, name.path.clone());
    }

    /// The name of a namespace, or its inode as `net:[INODE]`.
    pub(super) fn netns(&self, netns: NetnsCookie, inode: u32) -> String {
        let known = self.netns.get(&netns).or_else(|| self.netns_by_inode.get(&inode));
        known.cloned().unwrap_or_else(|| format!("net:[{inode}]"))
    }

    pub(super) fn cgroup(&self, id: u64) -> Option<String> {
        self.cgroups.get(&id).cloned()
    }
}
