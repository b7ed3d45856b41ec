// SPDX-License-Identifier: MIT OR Apache-2.0
//! The capabilities that mpwatch needs, found by removing each of them on Linux 6.18. `doctor` checks them; the daemon drops some.

pub(crate) struct Capability {
    pub(crate) name: &'static str,
    /// As in linux/capability.h.
    pub(crate) number: u8,
    pub(crate) purpose: &'static str,
    /// What is unknown without it. `None`: mpwatch does not run.
    pub(crate) loss: Option<&'static str>,
    /// Whether the daemon still needs it once it traces.
    pub(crate) is_kept: bool,
}

/// Includes everything that CAP_BPF and CAP_PERFMON allow.
pub(crate) const CAP_SYS_ADMIN: u8 = 21;

pub(crate) static USED: [Capability; 4] = [
    Capability {
        name: "cap_bpf",
        number: 39,
        purpose: "loading BPF programs and reading their maps",
        loss: None,
        is_kept: true,
    },
    Capability {
        name: "cap_perfmon",
        number: 38,
        purpose: "attaching BPF programs to tracepoints and reading energy counters",
        loss: None,
        is_kept: true,
    },
    Capability {
        name: "cap_sys_admin",
        number: CAP_SYS_ADMIN,
        purpose: "entering network namespaces",
        loss: Some("connections older than mpwatch stay unseen"),
        is_kept: false,
    },
    Capability {
        name: "cap_sys_ptrace",
        number: 19,
        purpose: "finding the network namespaces of other users' processes",
        loss: Some("connections in them that are older than mpwatch stay unseen"),
        is_kept: true,
    },
];

/// Whether the daemon still needs the capability of this number once it traces.
pub(crate) fn is_kept(number: u8) -> bool {
    USED.iter().any(|used| used.is_kept && used.number == number)
}
