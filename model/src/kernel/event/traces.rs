// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements that a kernel supports.

use serde::{Deserialize, Serialize};

/// Measurements that need a hook that some kernels lack. `false`: outputs show `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "one for each hook")]
pub struct Traces {
    /// Causes of retransmissions (`tcp_retransmit_skb`).
    pub retransmits: bool,
    /// Scheduler rounds (`mptcp_subflow_get_send`, with the ledger).
    pub scheduler: bool,
    /// RTT histograms and stalls (`tcp_probe`).
    pub segments: bool,
    /// CPU time (`sched_switch` and others).
    pub ledger: bool,
    /// CPU time of system calls (`sock_send_length`, `sock_recv_length`).
    pub calls: bool,
    /// Delay samples, from which bottlenecks are found (`tcp_probe`, if detection is enabled).
    pub samples: bool,
}

impl Traces {
    /// The measurements of a kernel that has every hook.
    pub const ALL: Self =
        Self { retransmits: true, scheduler: true, segments: true, ledger: true, calls: true, samples: true };
}
