// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel can do. Facts are read from its BTF; what follows from them is a pure function. No kernel version is ever
//! looked at: distributions backport.

use std::collections::BTreeSet;
use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Struct, Typedef};
use mpwatch_model::event::Traces;
use mpwatch_model::host::MissingHook;

mod named_types;

use named_types::NamedTypes;

/// The structure that only a kernel with MPTCP has.
const MPTCP: &str = "mptcp_sock";
/// The function by which programs read fields in place, of Linux 6.2 and later.
const CAST: &str = "bpf_rdonly_cast";
/// Where a kernel shows its BTF.
pub(crate) const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// A BTF-typed raw tracepoint.
    Tracepoint,
    /// An iterator over a socket storage map.
    StorageIterator {
        /// The map that it walks.
        map: &'static str,
    },
    /// An iterator that needs no map.
    Iterator,
    /// Not at all: user space runs it when it wants to.
    Run,
    /// Not at all: programs on this tracepoint go on to it.
    Called {
        /// The array of programs by which they do; it is its only one.
        array: &'static str,
    },
}

/// What a program works for. The hooks of a part that is switched off are not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Connections and subflows.
    Flows,
    /// The CPU ledger: `vital` hooks are needed for it as a whole, the others for some of its columns.
    Ledger {
        /// Without it there is no ledger.
        vital: bool,
    },
}

/// One program of our object and the place it hangs on.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// Name of the program in the object.
    pub program: &'static str,
    /// Tracepoint or iterator target.
    pub target: &'static str,
    /// How.
    pub attach: Attach,
    /// What it works for.
    pub part: Part,
    /// Without a required hook mpwatch does not run at all.
    pub required: bool,
    /// What is not known without it.
    pub costs: &'static str,
}

impl Hook {
    /// Whether another program hangs on the same tracepoint.
    pub fn has_twin(&self) -> bool {
        self.attach == Attach::Tracepoint
            && HOOKS.iter().any(|other| {
                (other.attach, other.target) == (self.attach, self.target) && other.program != self.program
            })
    }

    fn is_at_tracepoint(&self) -> bool {
        matches!(self.attach, Attach::Tracepoint | Attach::Called { .. })
    }

    /// Name of the type by which BTF tells that a kernel has the target.
    fn type_name(&self) -> String {
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

/// What is not known without a vital hook of the ledger.
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
        "changes of state while another one is being taken in",
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
    vital("ledger_settle", "bpf_prog_test_run_raw_tp", Attach::Run),
    ledger("ledger_irq_entry", "irq_handler_entry", "CPU time of device interrupts"),
    ledger("ledger_irq_exit", "irq_handler_exit", "CPU time of device interrupts"),
    ledger("ledger_transmit", "net_dev_start_xmit", "CPU time of sending that had been put off"),
    ledger("ledger_work_start", "workqueue_execute_start", "where the CPU time of workers begins"),
    ledger("ledger_work_end", "workqueue_execute_end", "where the CPU time of workers ends"),
];

/// Programs for flows at which the ledger learns whose time it is, as vital to it as its own.
const LEDGER_READS: &[&str] = &["on_segment"];
/// Those at which it learns whose system call it is.
const LEDGER_READS_CALLS: &[&str] = &["on_send", "on_receive"];

/// A field that some supported kernels lack, and that our programs therefore ask for before they read it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Kernel structure.
    pub structure: &'static str,
    /// Its member.
    pub name: &'static str,
    /// What is not known without it.
    pub costs: &'static str,
}

/// Fields whose absence costs something. (Of some others it costs nothing: the programs know another way.)
pub const OPTIONAL_FIELDS: &[Field] = &[
    Field { structure: "mptcp_sock", name: "bytes_retrans", costs: "bytes that the MPTCP timer sent again" },
    Field { structure: "tcp_sock", name: "total_rto", costs: "counts of retransmission timeouts" },
];

impl Field {
    /// As `tcp_sock.total_rto`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.structure, self.name)
    }
}

/// Facts about a kernel; the rules are below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSupport {
    /// Tracepoints that programs can attach to (`btf_trace_*` in its BTF), of those in [`HOOKS`].
    pub tracepoints: BTreeSet<String>,
    /// Iterator targets, and the kernel's way to run a program at will, of those in [`HOOKS`].
    pub iterators: BTreeSet<String>,
    /// Those of [`OPTIONAL_FIELDS`] that it has, as `tcp_sock.total_rto`.
    pub fields: BTreeSet<String>,
    /// Whether it has MPTCP at all (`struct mptcp_sock`).
    pub mptcp: bool,
    /// Whether it has `bpf_rdonly_cast()`.
    pub has_cast: bool,
}

/// Why a kernel's BTF could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SupportError {
    /// The running kernel has none.
    #[error(
        "this kernel has no BTF at {path}: mpwatch needs CONFIG_DEBUG_INFO_BTF=y, as distribution kernels have"
    )]
    NoBtf {
        /// Where it was looked for.
        path: &'static str,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// A file that is none.
    #[error(
        "{path} is not a kernel's BTF; give the raw .BTF section, for example a copy of /sys/kernel/btf/vmlinux"
    )]
    NotBtf {
        /// The file.
        path: String,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
}

/// Names of the types by which a kernel tells the facts.
fn type_names() -> impl Iterator<Item = String> {
    let structures = OPTIONAL_FIELDS.iter().map(|field| field.structure).chain([MPTCP, CAST]);
    HOOKS.iter().map(Hook::type_name).chain(structures.map(str::to_owned))
}

impl KernelSupport {
    /// Reads the facts of the running kernel.
    pub fn of_this_kernel() -> Result<Self, SupportError> {
        crate::tracer::quiet_libbpf();
        let absent = |source| SupportError::NoBtf { path: VMLINUX_BTF, source };
        Btf::from_vmlinux().map(|btf| Self::of_btf(&btf)).map_err(absent)
    }

    /// Reads the facts of another kernel from a file with its BTF.
    pub fn of_file(path: &Path) -> Result<Self, SupportError> {
        crate::tracer::quiet_libbpf();
        Btf::from_path(path)
            .map(|btf| Self::of_btf(&btf))
            .map_err(|source| SupportError::NotBtf { path: path.display().to_string(), source })
    }

    fn of_btf(btf: &Btf<'_>) -> Self {
        let types = NamedTypes::of(btf, type_names());
        let has = |field: &&Field| {
            let of = types.find::<Struct<'_>>(field.structure);
            of.is_some_and(|of| of.iter().any(|member| member.name.is_some_and(|name| name == field.name)))
        };
        let mut support = Self {
            has_cast: types.find::<Func<'_>>(CAST).is_some(),
            mptcp: types.find::<Struct<'_>>(MPTCP).is_some(),
            fields: OPTIONAL_FIELDS.iter().filter(has).map(Field::path).collect(),
            ..Self::default()
        };
        for hook in HOOKS {
            let name = hook.type_name();
            if hook.is_at_tracepoint() {
                if types.find::<Typedef<'_>>(&name).is_some() {
                    support.tracepoints.insert(hook.target.to_owned());
                }
            } else if types.find::<Func<'_>>(&name).is_some() {
                support.iterators.insert(hook.target.to_owned());
            }
        }
        support
    }

    /// A kernel that lacks nothing, from which to take something away.
    pub fn complete() -> Self {
        let (tracepoints, iterators): (Vec<_>, Vec<_>) =
            HOOKS.iter().partition(|hook| hook.is_at_tracepoint());
        let targets = |hooks: Vec<&Hook>| hooks.iter().map(|hook| hook.target.to_owned()).collect();
        Self {
            tracepoints: targets(tracepoints),
            iterators: targets(iterators),
            fields: OPTIONAL_FIELDS.iter().map(Field::path).collect(),
            mptcp: true,
            has_cast: true,
        }
    }

    /// Whether it has one of [`OPTIONAL_FIELDS`].
    pub fn has_field(&self, field: &Field) -> bool {
        self.fields.contains(&field.path())
    }

    fn has(&self, hook: &Hook) -> bool {
        let there = if hook.is_at_tracepoint() { &self.tracepoints } else { &self.iterators };
        there.contains(hook.target)
    }
}

/// What will be attached and what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachPlan {
    /// Names of programs to load.
    pub programs: Vec<&'static str>,
    /// Optional hooks and fields that this kernel lacks.
    pub missing: Vec<MissingHook>,
    /// Why mpwatch cannot run on this kernel at all; empty: it can.
    pub obstacles: Vec<String>,
}

impl AttachPlan {
    /// The plan that follows from the facts.
    pub fn from_facts(support: &KernelSupport) -> Self {
        let mut plan = Self { programs: Vec::new(), missing: Vec::new(), obstacles: Vec::new() };
        if !support.mptcp {
            plan.obstacles.push("the kernel has no MPTCP (CONFIG_MPTCP is off)".to_owned());
        }
        for hook in HOOKS {
            if support.has(hook) {
                plan.programs.push(hook.program);
            } else if hook.required {
                let lacks = format!("the kernel has no {} ", hook.target);
                if !plan.obstacles.iter().any(|told| told.starts_with(&lacks)) {
                    plan.obstacles.push(format!("{lacks}({})", hook.costs));
                }
            } else {
                plan.missing.push(missing(hook.target, hook.costs, ABSENT));
            }
        }
        if !plan.can_keep_ledger() {
            plan.leave_out_ledger();
        }
        let lacked = OPTIONAL_FIELDS.iter().filter(|field| !support.has_field(field));
        plan.missing.extend(lacked.map(|field| missing(&field.path(), field.costs, ABSENT)));
        plan
    }

    /// Loads nothing that works for the CPU ledger alone.
    pub fn leave_out_ledger(&mut self) {
        let is_ledger = |program: &&str| {
            let hook = HOOKS.iter().find(|hook| *program == hook.program);
            hook.is_some_and(|hook| hook.part != Part::Flows)
        };
        self.programs.retain(|program| !is_ledger(program));
    }

    /// Whether everything is there that the CPU ledger cannot do without.
    pub fn can_keep_ledger(&self) -> bool {
        let vital = HOOKS.iter().filter(|hook| hook.part == Part::Ledger { vital: true });
        let mut needed = vital.map(|hook| hook.program).chain(LEDGER_READS.iter().copied());
        needed.all(|program| self.programs.contains(&program))
    }

    /// What can be known with these hooks.
    pub fn traces(&self) -> Traces {
        let has = |program| self.programs.contains(&program);
        let ledger = self.can_keep_ledger();
        Traces {
            retransmits: has("on_retransmit"),
            scheduler: has("on_schedule"),
            segments: has("on_segment"),
            ledger,
            samples: has("on_segment"),
            // Older versions asked the kernel for fewer samples of some subflows; this one never does.
            rests: false,
            calls: ledger && LEDGER_READS_CALLS.iter().all(|program| has(program)),
        }
    }

    /// Takes a hook out of the plan that the kernel refused when it was attached.
    pub fn refuse(&mut self, hook: &Hook, why: &str) {
        self.programs.retain(|program| *program != hook.program);
        self.missing.push(missing(hook.target, hook.costs, why));
    }
}

const ABSENT: &str = "not in this kernel";

fn missing(what: &str, costs: &str, why: &str) -> MissingHook {
    MissingHook { what: what.to_owned(), costs: costs.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_state_have_two_programs_and_nothing_else_has() {
        let twins: Vec<_> = HOOKS.iter().filter(|hook| hook.has_twin()).map(|hook| hook.program).collect();
        assert_eq!(twins, ["on_set_state", "on_set_state_meanwhile"]);
    }

    #[test]
    fn a_capable_kernel_gets_every_program() {
        let plan = AttachPlan::from_facts(&KernelSupport::complete());
        assert_eq!(plan.programs.len(), HOOKS.len());
        assert!(plan.missing.is_empty() && plan.obstacles.is_empty());
    }

    #[test]
    fn an_optional_hook_costs_only_its_own_columns() {
        for hook in HOOKS.iter().filter(|hook| !hook.required) {
            let mut support = KernelSupport::complete();
            support.tracepoints.remove(hook.target);
            support.iterators.remove(hook.target);
            let plan = AttachPlan::from_facts(&support);
            assert!(plan.obstacles.is_empty(), "{} should be optional", hook.target);
            assert_eq!(plan.missing.len(), 1);
            assert_eq!(plan.missing[0].what, hook.target);
        }
    }

    #[test]
    fn an_optional_field_costs_only_its_own_columns() {
        for field in OPTIONAL_FIELDS {
            let mut support = KernelSupport::complete();
            support.fields.remove(&field.path());
            let plan = AttachPlan::from_facts(&support);
            assert_eq!((plan.obstacles.len(), plan.programs.len()), (0, HOOKS.len()));
            let told: Vec<_> = plan.missing.iter().map(|one| (one.what.clone(), &*one.costs)).collect();
            assert_eq!(told, [(field.path(), field.costs)]);
        }
    }

    #[test]
    fn a_required_hook_is_an_obstacle_that_names_itself() {
        let mut support = KernelSupport::complete();
        support.tracepoints.remove("inet_sock_set_state");
        let plan = AttachPlan::from_facts(&support);
        assert!(plan.obstacles[0].contains("inet_sock_set_state"), "{:?}", plan.obstacles);
        let none = AttachPlan::from_facts(&KernelSupport { mptcp: false, ..KernelSupport::complete() });
        assert!(none.obstacles[0].contains("CONFIG_MPTCP"));
    }

    #[test]
    fn what_cannot_be_traced_is_told_to_the_model() {
        let mut support = KernelSupport::complete();
        support.tracepoints.remove("tcp_retransmit_skb");
        let traces = AttachPlan::from_facts(&support).traces();
        assert_eq!(traces, Traces { retransmits: false, ..Traces::ALL });
    }
}
