// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows from the facts: one check each. Pure functions. Which capability is needed for what was found by running
//! with each of them taken away, on Linux 6.18.

use mpwatch_ebpf::core_check::CoreReport;
use mpwatch_ebpf::hook::{Attach, HOOKS, Hook};
use mpwatch_ebpf::plan::AttachPlan;
use mpwatch_ebpf::support::{Field, KernelSupport, OPTIONAL_FIELDS};

use super::Check;
use super::facts::{Capabilities, Energy, Facts};

const GRANT: &str =
    "run as root, or: setcap cap_bpf,cap_perfmon,cap_sys_admin,cap_sys_ptrace+ep \"$(command -v mpwatch)\"";
const OTHER_KERNEL: &str =
    "boot a kernel with CONFIG_MPTCP=y and CONFIG_DEBUG_INFO_BTF=y, as distribution kernels are";

/// Judges this machine.
pub(super) fn machine(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![Check::ok("kernel", facts.release.as_deref().unwrap_or("release unknown"))];
    checks.push(btf(facts));
    if let Some(Ok(report)) = &facts.core {
        checks.extend(kernel(report));
    }
    checks.extend([mptcp_enabled(facts), scheduler(facts)]);
    checks.extend(capabilities(facts));
    checks.extend([user_namespace(facts), lockdown(facts), jit(facts), cgroup2(facts), diag(facts)]);
    checks.extend(energy(&facts.energy));
    checks
}

/// Judges a kernel by its BTF alone.
pub(super) fn kernel(report: &CoreReport) -> Vec<Check> {
    let mut checks = vec![mptcp(report)];
    checks.extend(HOOKS.iter().map(|h| hook(h, &report.plan)));
    // Two programs may hang on one hook.
    checks.dedup_by(|again, first| again.name == first.name);
    // Without MPTCP all of its fields are missing: that is said already.
    if report.support.mptcp {
        checks.push(fields(report));
        checks.extend(OPTIONAL_FIELDS.iter().filter_map(|field| optional_field(field, &report.support)));
    }
    checks
}

fn btf(facts: &Facts) -> Check {
    match &facts.core {
        Some(Ok(_)) => Check::ok("btf", "the kernel describes its types"),
        Some(Err(error)) => Check::fail("btf", error.clone()),
        None => Check::fail("btf", "the kernel does not describe its types: no /sys/kernel/btf/vmlinux")
            .fix(OTHER_KERNEL),
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
    let name = match hook.attach {
        Attach::StorageIterator { map } => format!("hooks/{}/{map}", hook.target),
        Attach::Tracepoint | Attach::Iterator | Attach::Run | Attach::Called { .. } => {
            format!("hooks/{}", hook.target)
        }
    };
    // The ledger leaves out hooks that are there if it lacks another.
    if !plan.missing.iter().any(|missing| missing.what == hook.target) && !hook.required
        || plan.programs.contains(&hook.program)
    {
        Check::ok(name, "present")
    } else if hook.required {
        Check::fail(name, format!("not in this kernel, and mpwatch needs it: {}", hook.costs))
            .fix(OTHER_KERNEL)
    } else {
        Check::warn(name, format!("not in this kernel. Not known without it: {}", hook.costs))
    }
}

fn fields(report: &CoreReport) -> Check {
    if report.unguarded_missing.is_empty() {
        return Check::ok("fields", "every structure field that is needed");
    }
    let names: Vec<_> = report.unguarded_missing.iter().map(ToString::to_string).collect();
    Check::fail(
        "fields",
        format!("the kernel would refuse our programs, because it lacks {}", names.join(", ")),
    )
    .fix("report this as a bug of mpwatch, with the release of the kernel")
}

/// `None` if the kernel has it.
fn optional_field(field: &Field, support: &KernelSupport) -> Option<Check> {
    let message = format!("not in this kernel. Not known without it: {}", field.costs);
    (!support.has_field(field)).then(|| Check::warn(format!("fields/{}", field.path()), message))
}

fn mptcp_enabled(facts: &Facts) -> Check {
    match facts.mptcp_enabled {
        Some(true) => Check::ok("mptcp_enabled", "in this network namespace"),
        Some(false) => {
            Check::warn("mptcp_enabled", "programs in this network namespace cannot open MPTCP sockets")
                .fix("sysctl net.mptcp.enabled=1")
        }
        None => Check::warn("mptcp_enabled", "not known: this network namespace has no net.mptcp.enabled"),
    }
}

fn scheduler(facts: &Facts) -> Check {
    match facts.scheduler.as_deref() {
        Some("default") => Check::ok("mptcp_scheduler", "default"),
        None => Check::ok("mptcp_scheduler", "the kernel's only one"),
        Some(other) => Check::warn(
            "mptcp_scheduler",
            format!("`{other}`: how often a subflow was considered and picked is known for the default scheduler only"),
        )
        .fix("sysctl net.mptcp.scheduler=default"),
    }
}

/// A capability, whether mpwatch runs without it, and what it is for.
struct Need {
    name: &'static str,
    number: u32,
    required: bool,
    /// What comes after a colon is what is lost without it.
    purpose: &'static str,
    /// Whether a daemon still has it when it has attached.
    kept: bool,
}

/// Numbers of linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const NEEDS: [Need; 4] = [
    Need {
        name: "cap_bpf",
        number: 39,
        required: true,
        purpose: "loading programs and reading their maps",
        kept: true,
    },
    Need {
        name: "cap_perfmon",
        number: 38,
        required: true,
        purpose: "attaching them to tracepoints, and energy counters",
        kept: true,
    },
    Need {
        name: "cap_sys_admin",
        number: CAP_SYS_ADMIN,
        required: false,
        purpose: "entering network namespaces: connections older than mpwatch stay unseen",
        kept: false,
    },
    Need {
        name: "cap_sys_ptrace",
        number: 19,
        required: false,
        purpose: "finding the network namespaces of other users' processes: connections in them that are older than mpwatch stay unseen",
        kept: true,
    },
];

/// Whether a daemon still needs a capability, by its number, when it has attached.
pub(crate) fn is_kept(number: u8) -> bool {
    NEEDS.iter().any(|need| need.kept && need.number == u32::from(number))
}

fn capabilities(facts: &Facts) -> Vec<Check> {
    let held = facts.capabilities.unwrap_or_default();
    NEEDS.iter().map(|need| capability(need, held)).collect()
}

fn capability(need: &Need, held: Capabilities) -> Check {
    let name = format!("capabilities/{}", need.name);
    // CAP_SYS_ADMIN includes what CAP_BPF and CAP_PERFMON were split off from.
    if held.has(need.number) || need.required && held.has(CAP_SYS_ADMIN) {
        let then = if need.kept { "a daemon keeps it" } else { "a daemon gives it up once it traces" };
        let purpose = need.purpose.split(':').next().unwrap_or_default();
        Check::ok(name, format!("granted, for {purpose}; {then}"))
    } else if need.required {
        Check {
            is_permission: true,
            ..Check::fail(name, format!("not granted; needed for {}", need.purpose)).fix(GRANT)
        }
    } else {
        Check::warn(name, format!("not granted; needed for {}", need.purpose)).fix(GRANT)
    }
}

fn user_namespace(facts: &Facts) -> Check {
    if facts.in_first_user_namespace == Some(false) {
        let message =
            "inside a user namespace, as in a rootless container: the kernel does not let it load programs";
        return Check {
            is_permission: true,
            ..Check::fail("user_namespace", message)
                .fix("run mpwatch on the host, or in a privileged container")
        };
    }
    Check::ok("user_namespace", "the first one")
}

fn lockdown(facts: &Facts) -> Check {
    match facts.lockdown.as_deref() {
        Some("confidentiality") => {
            Check::fail("lockdown", "confidentiality: BPF programs may not read kernel memory")
                .fix("boot with lockdown=integrity or without lockdown")
        }
        Some("integrity") => Check::ok("lockdown", "integrity: does no harm, mpwatch uses tracepoints only"),
        Some(mode) => Check::ok("lockdown", mode),
        None => Check::ok("lockdown", "none, or not shown (securityfs is not mounted)"),
    }
}

fn jit(facts: &Facts) -> Check {
    match facts.jit {
        Some(true) => Check::ok("bpf_jit", "on"),
        Some(false) => {
            Check::warn("bpf_jit", "off: BPF programs are interpreted, which costs much more CPU time")
                .fix("sysctl net.core.bpf_jit_enable=1")
        }
        None => Check::ok("bpf_jit", "not shown here"),
    }
}

fn cgroup2(facts: &Facts) -> Check {
    match &facts.cgroup2 {
        Some(path) => Check::ok("cgroup2", format!("at {}", path.display())),
        None => Check::warn("cgroup2", "not mounted: connections are shown without their cgroup")
            .fix("mount -t cgroup2 none /sys/fs/cgroup"),
    }
}

fn diag(facts: &Facts) -> Check {
    let state = match facts.mptcp_diag {
        Some(true) => "a loaded module",
        Some(false) => "no loaded module",
        None => "not known",
    };
    Check::ok("mptcp_diag", format!("{state}; only `ss -M` needs it"))
}

/// Where joules can come from, each counter, and why better ones were passed over.
fn energy(facts: &Energy) -> Vec<Check> {
    let source = facts.source.as_str();
    let mut checks = vec![if facts.source.is_measured() {
        Check::ok("energy", format!("measured ({source})"))
    } else {
        Check::warn(
            "energy",
            format!("not measured here: figures come from `{source}`, an estimate, and say so"),
        )
    }];
    checks.extend(facts.zones.iter().map(|zone| {
        let name = format!("energy zone {}", zone.label);
        let counts = if zone.counted { "part of the total" } else { "not part of the total" };
        match &zone.why {
            Some(why) => Check::ok(name, format!("{counts}: {why} ({})", zone.device)),
            None => Check::ok(name, format!("{counts} ({})", zone.device)),
        }
    }));
    checks.extend(facts.notes.iter().map(|note| {
        let check = Check::warn("energy counters", note.what.clone());
        note.fix.iter().fold(check, |check, fix| check.fix(fix.clone()))
    }));
    checks
}

#[cfg(test)]
mod tests;
