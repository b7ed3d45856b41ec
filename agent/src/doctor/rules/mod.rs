// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pure functions that turn facts into checks.

use caps::Capability::CAP_SYS_ADMIN;
use caps::CapsHashSet;
use mpwatch_ebpf::support::core_check::CoreReport;
use mpwatch_ebpf::support::hook::{Attach, HOOKS, Hook};
use mpwatch_ebpf::support::plan::AttachPlan;
use mpwatch_ebpf::support::{CongestionSupport, OPTIONAL_FIELDS};

use super::check::Check;
use super::facts::{Energy, Facts};
use crate::system::privilege::{USED, UsedCapability};

const GRANT: &str = "run as root, or: sudo setcap cap_bpf,cap_perfmon,cap_sys_admin,cap_sys_ptrace+ep \"$(command -v mpwatch)\"";
const OTHER_KERNEL: &str =
    "boot a kernel with CONFIG_MPTCP=y and CONFIG_DEBUG_INFO_BTF=y; most distributions have one";

pub(super) fn machine(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![Check::ok("kernel", facts.release.as_deref().unwrap_or("release unknown"))];
    checks.push(btf(facts));
    if let Some(Ok(report)) = &facts.core {
        checks.extend(kernel(report));
    }
    checks.extend([mptcp_enabled(facts), scheduler(facts)]);
    let held = facts.capabilities.clone().unwrap_or_default();
    checks.extend(USED.iter().map(|used| capability(used, &held)));
    checks.extend([user_namespace(facts), lockdown(facts), jit(facts)]);
    checks.extend(energy(&facts.energy));
    checks
}

/// Judges a kernel by its BTF alone.
pub(super) fn kernel(report: &CoreReport) -> Vec<Check> {
    let mut checks = vec![mptcp(report)];
    checks.extend(HOOKS.iter().map(|h| hook(h, &report.plan)));
    // Two programs may use one hook.
    checks.dedup_by(|second, first| second.name == first.name);
    if cfg!(feature = "control") {
        checks.push(congestion(&report.support.congestion));
    }
    // Without MPTCP all of its fields are missing; the first check reports that.
    if report.support.mptcp {
        checks.push(fields(report));
        let fields = &report.support.fields;
        let lacked = OPTIONAL_FIELDS.iter().filter(|field| !fields.contains(&field.path()));
        checks.extend(lacked.map(|field| {
            let message = format!("this kernel lacks it. Unknown without it: {}", field.costs);
            Check::warn(format!("fields/{}", field.path()), message)
        }));
    }
    checks
}

fn btf(facts: &Facts) -> Check {
    match &facts.core {
        Some(Ok(_)) => Check::ok("btf", "present"),
        Some(Err(error)) => Check::fail("btf", error.clone()),
        None => Check::fail("btf", "the kernel has no BTF: no /sys/kernel/btf/vmlinux").fix(OTHER_KERNEL),
    }
}

fn mptcp(report: &CoreReport) -> Check {
    if report.support.mptcp {
        Check::ok("mptcp", "compiled in")
    } else {
        Check::fail("mptcp", "the kernel has no MPTCP").fix(OTHER_KERNEL)
    }
}

fn hook(hook: &Hook, plan: &AttachPlan) -> Check {
    let mut name = format!("hooks/{}", hook.target);
    if let Attach::StorageIterator { map } = hook.attach {
        name = format!("{name}/{map}");
    }
    // If one hook of the CPU ledger is missing, the ledger is off and its other hooks, although present, are not in the plan.
    if !plan.missing.iter().any(|missing| missing.what == hook.target) && !hook.required
        || plan.programs.contains(&hook.program)
    {
        Check::ok(name, "present")
    } else if hook.required {
        Check::fail(name, format!("this kernel lacks it, and mpwatch needs it: {}", hook.costs))
            .fix(OTHER_KERNEL)
    } else {
        Check::warn(name, format!("this kernel lacks it. Unknown without it: {}", hook.costs))
    }
}

fn congestion(support: &CongestionSupport) -> Check {
    const NAME: &str = "congestion";
    if !support.missing.is_empty() {
        let missing = support.missing.join(", ");
        let message = format!("`mpwatch control congestion` cannot register mptcpd: no {missing}");
        return Check::warn(NAME, message)
            .fix("boot a kernel with CONFIG_BPF_JIT=y and TCP over IP compiled in");
    }
    let end = if support.has_link {
        ""
    } else {
        "; it stays registered if the process that registered it is killed"
    };
    Check::ok(NAME, format!("`mpwatch control congestion` can register mptcpd{end}"))
}

fn fields(report: &CoreReport) -> Check {
    if report.unguarded_missing.is_empty() {
        return Check::ok("fields", "the kernel has every required structure field");
    }
    let names: Vec<_> = report.unguarded_missing.iter().map(ToString::to_string).collect();
    Check::fail(
        "fields",
        format!("the kernel would reject the BPF programs because it lacks {}", names.join(", ")),
    )
    .fix("report this as a bug of mpwatch, with the kernel release")
}

fn mptcp_enabled(facts: &Facts) -> Check {
    match facts.mptcp_enabled {
        Some(true) => Check::ok("mptcp_enabled", "yes, in this network namespace"),
        Some(false) => {
            Check::warn("mptcp_enabled", "programs in this network namespace cannot open MPTCP sockets")
                .fix("sysctl net.mptcp.enabled=1")
        }
        None => Check::warn("mptcp_enabled", "unknown: this network namespace has no net.mptcp.enabled"),
    }
}

fn scheduler(facts: &Facts) -> Check {
    match facts.scheduler.as_deref() {
        Some("default") => Check::ok("mptcp_scheduler", "default"),
        None => Check::ok("mptcp_scheduler", "the only scheduler of this kernel"),
        Some(other) => Check::warn(
            "mptcp_scheduler",
            format!("`{other}`: the decisions of a scheduler are recorded only for the default scheduler"),
        )
        .fix("sysctl net.mptcp.scheduler=default"),
    }
}

fn capability(used: &UsedCapability, held: &CapsHashSet) -> Check {
    let UsedCapability { purpose, .. } = used;
    let name = format!("capabilities/{}", used.id.to_string().to_lowercase());
    if held.contains(&used.id) || used.loss.is_none() && held.contains(&CAP_SYS_ADMIN) {
        let later =
            if used.is_kept { "the daemon keeps it" } else { "the daemon gives it up once it traces" };
        return Check::ok(name, format!("granted, for {purpose}; {later}"));
    }
    match used.loss {
        Some(loss) => Check::warn(name, format!("not granted; needed for {purpose}: {loss}")).fix(GRANT),
        None => Check {
            is_permission: true,
            ..Check::fail(name, format!("not granted; needed for {purpose}")).fix(GRANT)
        },
    }
}

fn user_namespace(facts: &Facts) -> Check {
    if facts.in_initial_user_namespace == Some(false) {
        let message = "not the initial user namespace, as in a rootless container: the kernel does not load BPF programs from here";
        return Check {
            is_permission: true,
            ..Check::fail("user_namespace", message)
                .fix("run mpwatch on the host, or in a privileged container")
        };
    }
    Check::ok("user_namespace", "the initial user namespace")
}

fn lockdown(facts: &Facts) -> Check {
    match facts.lockdown.as_deref() {
        Some("confidentiality") => {
            Check::fail("lockdown", "confidentiality: BPF programs may not read kernel memory")
                .fix("boot with lockdown=integrity or without lockdown")
        }
        Some("integrity") => Check::ok("lockdown", "integrity: does not affect tracepoints"),
        Some(mode) => Check::ok("lockdown", mode),
        None => Check::ok("lockdown", "none, or securityfs is not mounted"),
    }
}

fn jit(facts: &Facts) -> Check {
    match facts.jit {
        Some(true) => Check::ok("bpf_jit", "on"),
        Some(false) => {
            Check::warn("bpf_jit", "off: the kernel interprets BPF programs, which costs much more CPU time")
                .fix("sysctl net.core.bpf_jit_enable=1")
        }
        None => Check::ok("bpf_jit", "unknown: there is no net.core.bpf_jit_enable here"),
    }
}

/// Checks of the energy source and of every counter, and the reasons why a more accurate source is not used.
fn energy(facts: &Energy) -> Vec<Check> {
    let source = facts.source.as_str();
    let mut checks = vec![if facts.source.is_measured() {
        Check::ok("energy", format!("measured ({source})"))
    } else {
        Check::warn(
            "energy",
            format!("not measured: figures are estimates (source `{source}`) and marked as such"),
        )
    }];
    checks.extend(facts.zones.iter().map(|zone| {
        // In the name of a check, a slash ends the name of its group. The passed checks of a group share one line.
        let name = format!("energy zone {}", zone.label.replace('/', " "));
        let counts = if zone.counted { "part of the total" } else { "not part of the total" };
        let reason = zone.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        Check::ok(name, format!("{counts}{reason} ({})", zone.device))
    }));
    checks.extend(facts.notes.iter().map(|note| {
        let check = Check::warn("energy counters", note.what.clone());
        note.fix.iter().fold(check, |check, fix| check.fix(fix.clone()))
    }));
    checks
}

#[cfg(test)]
mod tests;
