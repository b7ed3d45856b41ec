// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Linux capabilities that mpwatch uses. `doctor` checks them; the daemon gives up those that it needs only to start.
//! What each is needed for was found by running with each of them removed, on Linux 6.18.

use caps::Capability::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE};

/// A capability.
pub(crate) struct Capability {
    pub(crate) id: caps::Capability,
    pub(crate) purpose: &'static str,
    /// What is lost without it. `None`: mpwatch does not run.
    pub(crate) loss: Option<&'static str>,
    /// Whether the daemon still needs it once it traces.
    pub(crate) is_kept: bool,
}

/// All capabilities that mpwatch uses.
pub(crate) static USED: [Capability; 4] = [
    Capability {
        id: CAP_BPF,
        purpose: "loading BPF programs and reading their maps",
        loss: None,
        is_kept: true,
    },
    Capability {
        id: CAP_PERFMON,
        purpose: "attaching BPF programs to tracepoints and reading energy counters",
        loss: None,
        is_kept: true,
    },
    Capability {
        // It includes everything that CAP_BPF and CAP_PERFMON allow.
        id: CAP_SYS_ADMIN,
        purpose: "entering network namespaces",
        loss: Some("connections older than mpwatch stay unseen"),
        is_kept: false,
    },
    Capability {
        id: CAP_SYS_PTRACE,
        purpose: "finding the network namespaces of other users' processes",
        loss: Some("connections in them that are older than mpwatch stay unseen"),
        is_kept: true,
    },
];
