// SPDX-License-Identifier: MIT OR Apache-2.0
//! The capabilities that mpwatch needs, found by removing each of them on Linux 6.18. `doctor` checks them; the daemon drops some.

use caps::Capability::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE};

pub(crate) struct UsedCapability {
    pub(crate) id: caps::Capability,
    pub(crate) purpose: &'static str,
    /// Values that are unknown without the capability. `None`: mpwatch does not run without it.
    pub(crate) loss: Option<&'static str>,
    /// Whether the daemon still needs the capability once it traces.
    pub(crate) is_kept: bool,
}

pub(crate) static USED: [UsedCapability; 4] = [
    UsedCapability {
        id: CAP_BPF,
        purpose: "loading BPF programs and reading their maps",
        loss: None,
        is_kept: true,
    },
    UsedCapability {
        id: CAP_PERFMON,
        purpose: "attaching BPF programs to tracepoints and reading energy counters",
        loss: None,
        is_kept: true,
    },
    UsedCapability {
        // CAP_SYS_ADMIN includes everything that CAP_BPF and CAP_PERFMON allow.
        id: CAP_SYS_ADMIN,
        purpose: "entering network namespaces",
        loss: Some("connections older than mpwatch stay unseen"),
        is_kept: false,
    },
    UsedCapability {
        id: CAP_SYS_PTRACE,
        purpose: "finding the network namespaces of other users' processes",
        loss: Some("connections in them that are older than mpwatch stay unseen"),
        is_kept: true,
    },
];
