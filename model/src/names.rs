// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that are found for numbers of the kernel: of network namespaces and control groups.

use serde::{Deserialize, Serialize};

use crate::id::NetnsCookie;

/// The name of a network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetnsName {
    /// The namespace. `None` in recordings of older versions: all namespaces with this inode, which the kernel reuses.
    #[serde(default)]
    pub netns: Option<NetnsCookie>,
    /// Inode of the namespace.
    pub inode: u32,
    /// Name under `/run/netns`, or `host` for the agent's own namespace.
    pub name: String,
}

/// The path of a control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupName {
    /// Id of the control group.
    pub id: u64,
    /// Path in the cgroup2 hierarchy, beginning with `/`; with `/...` if it has more levels than the kernel side reads.
    pub path: String,
}
