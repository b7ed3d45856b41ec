// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of network namespaces, control groups and pods, which the kernel reports as numbers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::NetnsCookie;

/// The name of a network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetnsName {
    /// The namespace.
    pub netns: NetnsCookie,
    /// Inode of the namespace. The kernel reuses inodes.
    pub inode: u32,
    /// Name under `/run/netns`, or `host` for the agent's own namespace.
    pub name: String,
}

/// The path of a control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupName {
    /// Id of the control group.
    pub id: u64,
    /// Path in the cgroup2 hierarchy, beginning with `/`, or with `/...` if it has more levels than the BPF programs read.
    pub path: String,
}

/// The pod that a control group belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodName {
    /// Id of the control group.
    pub cgroup: u64,
    /// The pod.
    pub pod: Pod,
}

/// A Kubernetes pod, and one of its containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pod {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    /// Name of the container. `null`: the control group belongs to no container, or the name is unknown.
    pub container: Option<String>,
}

/// Prints `NAMESPACE/POD`, with `/CONTAINER` if the container is known.
impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)?;
        self.container.as_ref().map_or(Ok(()), |container| write!(f, "/{container}"))
    }
}
