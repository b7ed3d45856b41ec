// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives from the facts about a kernel which programs to load and which figures are unknown.

use mpwatch_model::host::machine::MissingHook;
use mpwatch_model::kernel::event::Traces;

use super::hook::{HOOKS, Hook, LEDGER_CALL_PROGRAMS, LEDGER_FLOW_PROGRAMS, Part};
use super::kernel::{KernelSupport, OPTIONAL_FIELDS};

/// Programs to load on a kernel, and what the kernel lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachPlan {
    /// Names of programs to load.
    pub programs: Vec<&'static str>,
    /// Optional hooks and fields that this kernel lacks.
    pub missing: Vec<MissingHook>,
    /// Reasons why mpwatch cannot run on this kernel. Empty: it can run.
    pub obstacles: Vec<String>,
}

impl AttachPlan {
    /// Derives the plan from the facts about a kernel.
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
            } else if let Some(known) = plan.missing.iter_mut().find(|known| known.what == hook.target) {
                // All hooks of a target have one entry.
                known.costs = format!("{}, {}", known.costs, hook.costs);
            } else {
                plan.missing.push(missing(hook.target, hook.costs, ABSENT));
            }
        }
        if !plan.can_keep_ledger() {
            plan.remove_ledger();
        }
        let lacked = OPTIONAL_FIELDS.iter().filter(|field| !support.fields.contains(&field.path()));
        plan.missing.extend(lacked.map(|field| missing(&field.path(), field.costs, ABSENT)));
        plan
    }

    /// Removes the programs of the CPU ledger.
    pub fn remove_ledger(&mut self) {
        self.programs.retain(|name| !HOOKS.iter().any(|hook| hook.program == *name && hook.is_for_ledger()));
    }

    /// Whether the plan has all vital programs of the CPU ledger.
    pub fn can_keep_ledger(&self) -> bool {
        let vital = HOOKS.iter().filter(|hook| hook.part == Part::Ledger { vital: true });
        let mut needed = vital.map(|hook| hook.program).chain(LEDGER_FLOW_PROGRAMS.iter().copied());
        needed.all(|program| self.programs.contains(&program))
    }

    /// Measurements that the planned programs provide.
    pub fn traces(&self) -> Traces {
        let has = |program| self.programs.contains(&program);
        let ledger = self.can_keep_ledger();
        Traces {
            retransmits: has("on_retransmit"),
            scheduler: has("on_schedule"),
            segments: has("on_segment"),
            ledger,
            samples: has("on_segment"),
            calls: ledger && LEDGER_CALL_PROGRAMS.iter().all(|program| has(program)),
        }
    }

    /// Removes the programs of the CPU ledger after the kernel refused to re-attach the program of `target`.
    pub fn disable_ledger(&mut self, target: &str, why: &str) {
        self.remove_ledger();
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
            let missing: Vec<_> = plan.missing.iter().map(|hook| (hook.what.clone(), &*hook.costs)).collect();
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
    fn traces_are_false_for_a_missing_hook() {
        let mut support = KernelSupport::complete();
        support.targets.remove("tcp_retransmit_skb");
        let traces = AttachPlan::from_facts(&support).traces();
        assert_eq!(traces, Traces { retransmits: false, ..Traces::ALL });
    }
}
