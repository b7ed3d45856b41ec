// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of our programs: where each is attached, what it is for, and what is unknown without it.

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
    /// An iterator that needs no map.
    Iterator,
    /// Not attached: user space runs it.
    Run,
    /// Not attached: other programs on this tracepoint call it (`bpf_tail_call()`).
    Called {
        /// The program array that holds it, and nothing else.
        array: &'static str,
    },
}

/// What a program is for. The programs of a part that is disabled are not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Connections and subflows.
    Flows,
    /// The CPU ledger.
    Ledger {
        /// There is no ledger without this hook. Without another hook only some columns are unknown.
        vital: bool,
    },
}

/// One program of our object and where it is attached.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// Name of the program in the object.
    pub program: &'static str,
    /// Tracepoint or iterator target.
    pub target: &'static str,
    /// How it is attached.
    pub attach: Attach,
    /// What it is for.
    pub part: Part,
    /// mpwatch does not run without a required hook.
    pub required: bool,
    /// What is unknown without it.
    pub costs: &'static str,
}

impl Hook {
    /// Whether another program is attached to the same tracepoint.
    pub fn has_twin(&self) -> bool {
        self.attach == Attach::Tracepoint
            && HOOKS.iter().any(|other| {
                (other.attach, other.target) == (self.attach, self.target) && other.program != self.program
            })
    }

    /// Whether it needs its tracepoint; the others need an iterator or a way to be run.
    pub(crate) fn is_at_tracepoint(&self) -> bool {
        matches!(self.attach, Attach::Tracepoint | Attach::Called { .. })
    }

    /// Name of the BTF type that every kernel with this target has.
    pub(crate) fn type_name(&self) -> String {
        match self.attach {
            Attach::Tracepoint | Attach::Called { .. } => format!("btf_trace_{}", self.target),
            Attach::StorageIterator { .. } | Attach::Iterator => format!("bpf_iter_{}", self.target),
            Attach::Run => self.target.to_owned(),
        }
    }
}

const fn tracepoint(
    program: &'static str,
    target: &'static str,
    required: bool,
    costs: &'static str,
) -> Hook {
    Hook { program, target, attach: Attach::Tracepoint, part: Part::Flows, required, costs }
}

/// What is unknown without a vital hook of the ledger.
const WHOLE_LEDGER: &str = "CPU time of flows";

const fn ledger(program: &'static str, target: &'static str, costs: &'static str) -> Hook {
    Hook {
        program,
        target,
        attach: Attach::Tracepoint,
        part: Part::Ledger { vital: false },
        required: false,
        costs,
    }
}

const fn vital(program: &'static str, target: &'static str, attach: Attach) -> Hook {
    let part = Part::Ledger { vital: true };
    Hook { program, target, attach, part, required: false, costs: WHOLE_LEDGER }
}

const fn storage(program: &'static str, map: &'static str, costs: &'static str) -> Hook {
    Hook {
        program,
        target: "bpf_sk_storage_map",
        attach: Attach::StorageIterator { map },
        part: Part::Flows,
        required: true,
        costs,
    }
}

const fn iterator(program: &'static str, target: &'static str, costs: &'static str) -> Hook {
    Hook { program, target, attach: Attach::Iterator, part: Part::Flows, required: false, costs }
}

/// The function by which the kernel runs a program for user space.
const RUN: &str = "bpf_prog_test_run_raw_tp";

/// Every hook, the required ones first.
pub const HOOKS: &[Hook] = &[
    tracepoint(
        "on_set_state",
        "inet_sock_set_state",
        true,
        "opening and closing of connections and subflows",
    ),
    tracepoint(
        "on_set_state_meanwhile",
        "inet_sock_set_state",
        true,
        "changes of state while another one is being processed",
    ),
    Hook {
        program: "take_in_state",
        target: "inet_sock_set_state",
        attach: Attach::Called { array: "state_changes" },
        part: Part::Flows,
        required: true,
        costs: "opening and closing of connections and subflows",
    },
    tracepoint("on_destroy", "tcp_destroy_sock", true, "final counters of subflows"),
    storage("read_subflows", "subflows", "snapshots of subflows"),
    storage("read_connections", "connections", "snapshots of connections"),
    tracepoint(
        "on_segment",
        "tcp_probe",
        false,
        "RTT percentiles, stalls, when a second path became effective, shared bottlenecks, and CPU time of flows",
    ),
    tracepoint("on_retransmit", "tcp_retransmit_skb", false, "causes of retransmissions"),
    tracepoint("on_retransmit_synack", "tcp_retransmit_synack", false, "the count of repeated SYN-ACKs"),
    tracepoint("on_reset_received", "tcp_receive_reset", false, "the close reason `reset_received`"),
    tracepoint("on_reset_sent", "tcp_send_reset", false, "the close reason `reset_sent`"),
    tracepoint(
        "on_error_report",
        "inet_sk_error_report",
        false,
        "the close reasons `timeout` and `unreachable`",
    ),
    tracepoint("on_schedule", "mptcp_subflow_get_send", false, "scheduler accounting"),
    tracepoint("on_mapping_sent", "mptcp_sendmsg_frag", false, "host counters of DSS mappings sent"),
    tracepoint("on_mapping_received", "get_mapping_status", false, "host counters of DSS mappings received"),
    tracepoint("on_mapping_verdict", "subflow_check_data_avail", false, "host counters of bad mappings"),
    tracepoint("on_data_ack", "ack_update_msk", false, "host counters of DATA_ACKs"),
    tracepoint(
        "on_send",
        "sock_send_length",
        false,
        "owners of accepted connections at their first write, and CPU time of system calls",
    ),
    tracepoint(
        "on_receive",
        "sock_recv_length",
        false,
        "owners of accepted connections at their first read, and CPU time of system calls",
    ),
    iterator("adopt", "tcp", "connections older than the agent"),
    iterator("find_owners", "task_file", "owners of connections older than the agent"),
    vital("ledger_switch", "sched_switch", Attach::Tracepoint),
    vital("ledger_softirq_entry", "softirq_entry", Attach::Tracepoint),
    vital("ledger_softirq_exit", "softirq_exit", Attach::Tracepoint),
    vital("ledger_packet", "netif_receive_skb", Attach::Tracepoint),
    vital("ledger_sys_enter", "sys_enter", Attach::Tracepoint),
    vital("ledger_sys_exit", "sys_exit", Attach::Tracepoint),
    Hook {
        program: "netns_cookie",
        target: RUN,
        attach: Attach::Run,
        part: Part::Flows,
        required: false,
        costs: "names of network namespaces",
    },
    vital("ledger_settle", RUN, Attach::Run),
    ledger("ledger_irq_entry", "irq_handler_entry", "CPU time of device interrupts"),
    ledger("ledger_irq_exit", "irq_handler_exit", "CPU time of device interrupts"),
    ledger("ledger_transmit", "net_dev_start_xmit", "CPU time of delayed sending"),
    ledger("ledger_work_start", "workqueue_execute_start", "where the CPU time of workers begins"),
    ledger("ledger_work_end", "workqueue_execute_end", "where the CPU time of workers ends"),
];

/// Programs for flows that the ledger cannot do without.
pub(crate) const LEDGER_READS: &[&str] = &["on_segment"];
/// Programs for flows that charge system calls to their sockets.
pub(crate) const LEDGER_READS_CALLS: &[&str] = &["on_send", "on_receive"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_of_state_have_two_programs() {
        let twins: Vec<_> = HOOKS.iter().filter(|hook| hook.has_twin()).map(|hook| hook.program).collect();
        assert_eq!(twins, ["on_set_state", "on_set_state_meanwhile"]);
    }
}
