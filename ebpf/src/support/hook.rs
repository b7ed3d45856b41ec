// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of BPF programs: where each is attached, its purpose, and the figures that are unknown without it.

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// A BTF-typed raw tracepoint.
    Tracepoint,
    /// An iterator over a map of socket storage.
    StorageIterator {
        /// The map.
        map: &'static str,
    },
    /// An iterator without a map.
    Iterator,
    /// Not attached; user space runs it.
    Run,
    /// Not attached; other programs on this tracepoint call it (`bpf_tail_call()`).
    Called {
        /// The program array that holds this program only.
        array: &'static str,
    },
}

/// Purpose of a program. The programs of a disabled part are not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Connections and subflows.
    Flows,
    /// The CPU ledger.
    Ledger {
        /// Whether the ledger needs this hook. If it does not, only some figures are unknown without the hook.
        vital: bool,
    },
}

/// A program and where it is attached.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// Name of the program in the object.
    pub program: &'static str,
    /// Tracepoint, iterator target, or the kernel function that runs the program for user space.
    pub target: &'static str,
    /// How it is attached.
    pub attach: Attach,
    /// Its purpose.
    pub part: Part,
    /// Whether mpwatch refuses to run without it.
    pub required: bool,
    /// Figures that are unknown without it.
    pub costs: &'static str,
}

impl Hook {
    /// Whether the program belongs to the ledger, so that a sampled ledger attaches it in sampling windows only.
    pub(crate) fn is_for_ledger(&self) -> bool {
        self.part != Part::Flows
    }

    /// Name of the BTF type that exists if the kernel has the target.
    pub(crate) fn type_name(&self) -> String {
        match self.attach {
            Attach::Tracepoint | Attach::Called { .. } => format!("btf_trace_{}", self.target),
            Attach::StorageIterator { .. } | Attach::Iterator => format!("bpf_iter_{}", self.target),
            Attach::Run => self.target.to_owned(),
        }
    }
}

/// An optional hook for flows.
const fn tracepoint(program: &'static str, target: &'static str, costs: &'static str) -> Hook {
    Hook { program, target, attach: Attach::Tracepoint, part: Part::Flows, required: false, costs }
}

const fn required(program: &'static str, target: &'static str, costs: &'static str) -> Hook {
    Hook { required: true, ..tracepoint(program, target, costs) }
}

const fn ledger(program: &'static str, target: &'static str, costs: &'static str) -> Hook {
    Hook { part: Part::Ledger { vital: false }, ..tracepoint(program, target, costs) }
}

const fn vital(program: &'static str, target: &'static str) -> Hook {
    Hook { part: Part::Ledger { vital: true }, ..tracepoint(program, target, "CPU time of flows") }
}

const fn storage(program: &'static str, map: &'static str, costs: &'static str) -> Hook {
    Hook { attach: Attach::StorageIterator { map }, ..required(program, "bpf_sk_storage_map", costs) }
}

const fn iterator(program: &'static str, target: &'static str, costs: &'static str) -> Hook {
    Hook { attach: Attach::Iterator, ..tracepoint(program, target, costs) }
}

/// The kernel function that runs a program for user space.
const RUN: &str = "bpf_prog_test_run_raw_tp";
/// Figures that are unknown if changes of state are not traced.
const STATES: &str = "opening and closing of connections and subflows";

/// All hooks, first the required ones.
pub const HOOKS: &[Hook] = &[
    required("on_set_state", "inet_sock_set_state", STATES),
    required("on_set_state_nested", "inet_sock_set_state", "changes of state during another change"),
    Hook {
        attach: Attach::Called { array: "state_changes" },
        ..required("handle_state_change", "inet_sock_set_state", STATES)
    },
    required("on_destroy", "tcp_destroy_sock", "final counters of subflows"),
    storage("read_subflows", "subflows", "snapshots of subflows"),
    storage("read_connections", "connections", "snapshots of connections"),
    tracepoint(
        "on_segment",
        "tcp_probe",
        "RTT percentiles, stalls, when a second path became effective, shared bottlenecks, and CPU time of flows",
    ),
    tracepoint("on_retransmit", "tcp_retransmit_skb", "causes of retransmissions"),
    tracepoint("on_drop", "kfree_skb", "wire bytes without the packets that a queue of this host dropped"),
    tracepoint("on_retransmit_synack", "tcp_retransmit_synack", "the count of repeated SYN-ACKs"),
    tracepoint("on_reset_received", "tcp_receive_reset", "the close reason `reset_received`"),
    tracepoint("on_reset_sent", "tcp_send_reset", "the close reason `reset_sent`"),
    tracepoint("on_error_report", "inet_sk_error_report", "the close reasons `timeout` and `unreachable`"),
    iterator("adopt", "tcp", "connections older than the agent"),
    iterator("find_owners", "task_file", "owners of accepted connections until they are closed"),
    vital("ledger_switch", "sched_switch"),
    vital("ledger_softirq_entry", "softirq_entry"),
    vital("ledger_softirq_exit", "softirq_exit"),
    vital("ledger_packet", "netif_receive_skb"),
    vital("ledger_sys_enter", "sys_enter"),
    vital("ledger_sys_exit", "sys_exit"),
    Hook { attach: Attach::Run, ..tracepoint("netns_cookie", RUN, "names of network namespaces") },
    Hook { attach: Attach::Run, ..vital("ledger_read", RUN) },
    Hook { attach: Attach::Run, ..vital("ledger_open", RUN) },
    Hook { attach: Attach::Run, ..vital("ledger_close", RUN) },
    ledger(
        "on_schedule",
        "mptcp_subflow_get_send",
        "scheduler accounting, and CPU time of workers by connection",
    ),
    ledger("on_send", "sock_send_length", "CPU time of send calls"),
    ledger("on_receive", "sock_recv_length", "CPU time of receive calls"),
    ledger("ledger_irq_entry", "irq_handler_entry", "CPU time of device interrupts"),
    ledger("ledger_irq_exit", "irq_handler_exit", "CPU time of device interrupts"),
    ledger("ledger_transmit", "net_dev_start_xmit", "CPU time of delayed sending"),
    ledger("ledger_work_start", "workqueue_execute_start", "the start of the CPU time of workers"),
    ledger("ledger_work_end", "workqueue_execute_end", "the end of the CPU time of workers"),
];

/// Programs of [`Part::Flows`] that the ledger needs.
pub(crate) const LEDGER_FLOW_PROGRAMS: &[&str] = &["on_segment"];
/// Programs that charge system calls to sockets.
pub(crate) const LEDGER_CALL_PROGRAMS: &[&str] = &["on_send", "on_receive"];

#[cfg(test)]
mod tests {
    use super::*;

    /// The count of missed events treats programs on one tracepoint as substitutes (program.rs).
    #[test]
    fn only_changes_of_state_have_two_programs() {
        let on_tracepoint = |target: &str| {
            let hooks =
                HOOKS.iter().filter(|hook| hook.attach == Attach::Tracepoint && hook.target == target);
            hooks.map(|hook| hook.program).collect::<Vec<_>>()
        };
        for programs in
            HOOKS.iter().map(|hook| on_tracepoint(hook.target)).filter(|programs| programs.len() > 1)
        {
            assert_eq!(programs, ["on_set_state", "on_set_state_nested"]);
        }
    }
}
