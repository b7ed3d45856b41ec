// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which programs to load on a kernel, and what is unknown there: a pure function of the facts in [`crate::support`].

use mpwatch_model::host::machine::MissingHook;
use mpwatch_model::kernel::event::Traces;

use super::hook::{HOOKS, Hook, LEDGER_READS, LEDGER_READS_CALLS, Part};
use super::kernel::{KernelSupport, OPTIONAL_FIELDS};

/// What will be attached, and what this kernel lacks.
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
    /// Derives the plan from facts about a kernel.
    pub fn from_facts(support: &KernelSupport) -> Self {
        let mut plan = Self { programs: Vec::new(), missing: Vec::new(), obstacles: Vec::new() };
        if !support.mptcp {
            plan.obstacles.push("the kernel has no MPTCP (CONFIG_MPTCP is off)".to_owned());
        }
        for hook in HOOKS {
            if support.targets.contains(hook.target) {
                plan.programs.push(hook.program);
            } else if hook.required {
                let lacks = format!("the kernel has no {} ", hook.target);
                if !plan.obstacles.iter().any(|known| known.starts_with(&lacks)) {
                    plan.obstacles.push(format!("{lacks}({})", hook.costs));
                }
            } else {
                plan.lack(hook.target, hook.costs);
            }
        }
        if !plan.can_keep_ledger() {
            plan.leave_out_ledger();
        }
        let lacked = OPTIONAL_FIELDS.iter().filter(|field| !support.has_field(field));
        plan.missing.extend(lacked.map(|field| missing(&field.path(), field.costs, ABSENT)));
        plan
    }

    /// Adds an optional target that the kernel lacks, one entry for all hooks that need it.
    fn lack(&mut self, target: &str, costs: &str) {
        match self.missing.iter_mut().find(|known| known.what == target) {
            Some(known) => known.costs = format!("{}, {costs}", known.costs),
            None => self.missing.push(missing(target, costs, ABSENT)),
        }
    }

    /// Removes the programs of the CPU ledger.
    pub fn leave_out_ledger(&mut self) {
        let is_ledger = |program: &&str| {
            let hook = HOOKS.iter().find(|hook| *program == hook.program);
            hook.is_some_and(|hook| hook.part != Part::Flows)
        };
        self.programs.retain(|program| !is_ledger(program));
    }

    /// Whether all vital hooks of the CPU ledger are there.
    pub fn can_keep_ledger(&self) -> bool {
        let vital = HOOKS.iter().filter(|hook| hook.part == Part::Ledger { vital: true });
        let mut needed = vital.map(|hook| hook.program).chain(LEDGER_READS.iter().copied());
        needed.all(|program| self.programs.contains(&program))
    }

    /// What these hooks can measure.
    pub fn traces(&self) -> Traces {
        let has = |program| self.programs.contains(&program);
        let ledger = self.can_keep_ledger();
        Traces {
            retransmits: has("on_retransmit"),
            scheduler: has("on_schedule"),
            segments: has("on_segment"),
            ledger,
            samples: has("on_segment"),
            calls: ledger && LEDGER_READS_CALLS.iter().all(|program| has(program)),
        }
    }

    /// Removes the programs of the CPU ledger, because the kernel refused to attach one of them again.
    pub fn give_up_ledger(&mut self, target: &str, why: &str) {
        self.leave_out_ledger();
        self.missing.push(missing(target, "CPU time and energy of flows", why));
    }

    /// Removes a hook that the kernel refused to attach.
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
    fn a_capable_kernel_gets_every_program() {
        let plan = AttachPlan::from_facts(&KernelSupport::complete());
        assert_eq!(plan.programs.len(), HOOKS.len());
        assert!(plan.missing.is_empty() && plan.obstacles.is_empty());
    }

    #[test]
    fn without_an_optional_hook_only_its_columns_are_unknown() {
        for hook in HOOKS.iter().filter(|hook| !hook.required) {
            let mut support = KernelSupport::complete();
            support.targets.remove(hook.target);
            let plan = AttachPlan::from_facts(&support);
            assert!(plan.obstacles.is_empty(), "{} should be optional", hook.target);
            assert_eq!(plan.missing.len(), 1);
            assert_eq!(plan.missing[0].what, hook.target);
        }
    }

    #[test]
    fn without_an_optional_field_only_its_columns_are_unknown() {
        for field in OPTIONAL_FIELDS {
            let mut support = KernelSupport::complete();
            support.fields.remove(&field.path());
            let plan = AttachPlan::from_facts(&support);
            assert_eq!((plan.obstacles.len(), plan.programs.len()), (0, HOOKS.len()));
            let missing: Vec<_> = plan.missing.iter().map(|one| (one.what.clone(), &*one.costs)).collect();
            assert_eq!(missing, [(field.path(), field.costs)]);
        }
    }

    #[test]
    fn a_missing_required_hook_is_an_obstacle_with_its_name() {
        let mut support = KernelSupport::complete();
        support.targets.remove("inet_sock_set_state");
        let plan = AttachPlan::from_facts(&support);
        assert!(plan.obstacles[0].contains("inet_sock_set_state"), "{:?}", plan.obstacles);
        let none = AttachPlan::from_facts(&KernelSupport { mptcp: false, ..KernelSupport::complete() });
        assert!(none.obstacles[0].contains("CONFIG_MPTCP"));
    }

    #[test]
    fn what_a_kernel_cannot_trace_is_false_in_traces() {
        let mut support = KernelSupport::complete();
        support.targets.remove("tcp_retransmit_skb");
        let traces = AttachPlan::from_facts(&support).traces();
        assert_eq!(traces, Traces { retransmits: false, ..Traces::ALL });
    }
}
