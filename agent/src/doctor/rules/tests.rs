// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine passes every check. Then one fact at a time is changed, and the changed checks are compared.

use caps::Capability::{CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE};
use mpwatch_ebpf::support::KernelSupport;
use mpwatch_ebpf::support::core_check::MissingField;

use mpwatch_model::host::energy::EnergySource;

use super::*;
use crate::doctor::check::{Outcome, Status};
use crate::energy::discovery::Note;
use crate::energy::zone_reader::ZoneReport;

fn capable_report() -> CoreReport {
    let support = KernelSupport::complete();
    let plan = AttachPlan::from_facts(&support);
    CoreReport { guarded_missing: Vec::new(), unguarded_missing: Vec::new(), support, plan }
}

fn capable_machine() -> Facts {
    Facts {
        release: Some("6.12.1".to_owned()),
        core: Some(Ok(capable_report())),
        mptcp_enabled: Some(true),
        scheduler: Some("default".to_owned()),
        capabilities: Some(USED.iter().map(|used| used.id).collect()),
        in_initial_user_namespace: Some(true),
        lockdown: Some("none".to_owned()),
        jit: Some(true),
        energy: Energy {
            source: EnergySource::RaplPerf,
            zones: vec![zone("package-0", true, None)],
            notes: Vec::new(),
        },
    }
}

fn zone(label: &str, counted: bool, reason: Option<&str>) -> ZoneReport {
    let (label, device) = (label.to_owned(), "intel-rapl:0".to_owned());
    ZoneReport { label, device, counted, reason: reason.map(ToOwned::to_owned) }
}

#[test]
fn missing_counters_are_a_warning_with_a_fix_and_an_uncounted_zone_has_a_reason() {
    let note = Note { what: "no energy counters".to_owned(), fix: Some("modprobe".to_owned()) };
    let (changed, outcome) = changed_by(|facts| {
        facts.energy = Energy { source: EnergySource::Model, zones: Vec::new(), notes: vec![note] };
    });
    let expected = ["energy", "energy counters"].map(|name| (name.to_owned(), Status::Warn));
    assert_eq!((changed, outcome), (expected.to_vec(), Outcome::CanRun));
    let zones = vec![
        zone("package-0", true, None),
        zone("package-0/dram", true, None),
        zone("psys", false, Some("contains the packages")),
    ];
    let checks = machine(&Facts {
        energy: Energy { source: EnergySource::RaplPowercap, zones, notes: Vec::new() },
        ..capable_machine()
    });
    // The name of the check has no slash: a slash would put the check into a group, whose passed checks share one line.
    assert!(checks.iter().any(|check| check.name == "energy zone package-0 dram"));
    let psys = checks.iter().find(|check| check.name == "energy zone psys").unwrap();
    assert_eq!(psys.message, "not part of the total: contains the packages (intel-rapl:0)");
}

fn without_hook(target: &str) -> CoreReport {
    let mut report = capable_report();
    report.support.targets.remove(target);
    report.plan = AttachPlan::from_facts(&report.support);
    report
}

type Change = fn(&mut Facts);

/// Names and results of the checks that differ from the capable machine, and the outcome.
fn changed_by(change: impl FnOnce(&mut Facts)) -> (Vec<(String, Status)>, Outcome) {
    let mut facts = capable_machine();
    change(&mut facts);
    let (before, after) = (machine(&capable_machine()), machine(&facts));
    let outcome = Outcome::from_checks(&after);
    let changed = after.into_iter().filter(|check| !before.contains(check));
    (changed.map(|check| (check.name, check.status)).collect(), outcome)
}

fn one(name: &str, status: Status) -> Vec<(String, Status)> {
    vec![(name.to_owned(), status)]
}

#[test]
fn a_capable_machine_passes_every_check() {
    let checks = machine(&capable_machine());
    assert!(checks.iter().all(|check| check.status == Status::Ok && check.fix.is_none()), "{checks:?}");
    assert_eq!(Outcome::from_checks(&checks), Outcome::CanRun);
    let mut names: Vec<_> = checks.iter().map(|check| &check.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), checks.len(), "names are unique");
}

#[test]
fn a_setting_that_is_off_is_a_warning_with_a_fix() {
    let changes: [(&str, Change); 4] = [
        ("mptcp_enabled", |facts| facts.mptcp_enabled = Some(false)),
        ("mptcp_scheduler", |facts| facts.scheduler = Some("bpf_rr".to_owned())),
        ("bpf_jit", |facts| facts.jit = Some(false)),
        ("mptcp_enabled", |facts| facts.mptcp_enabled = None),
    ];
    for (name, change) in changes {
        assert_eq!(changed_by(change), (one(name, Status::Warn), Outcome::CanRun));
    }
}

#[test]
fn a_kernel_that_cannot_register_the_congestion_control_is_a_warning() {
    let (changed, outcome) = changed_by(|facts| {
        let mut report = capable_report();
        report.support.congestion.missing = vec!["tcp_slow_start".to_owned()];
        facts.core = Some(Ok(report));
    });
    assert_eq!((changed, outcome), (one("congestion", Status::Warn), Outcome::CanRun));
}

#[test]
fn a_kernel_without_btf_fails_and_its_hooks_are_not_checked() {
    let (changed, outcome) = changed_by(|facts| facts.core = None);
    assert_eq!((changed, outcome), (one("btf", Status::Fail), Outcome::KernelUnsupported));
    let checks = machine(&Facts { core: None, ..capable_machine() });
    assert!(!checks.iter().any(|check| check.name.starts_with("hooks")));
}

#[test]
fn an_unreadable_btf_fails_with_its_reason() {
    let (changed, outcome) = changed_by(|facts| facts.core = Some(Err("torn".to_owned())));
    assert_eq!((changed, outcome), (one("btf", Status::Fail), Outcome::KernelUnsupported));
}

#[test]
fn a_kernel_without_mptcp_fails_once() {
    let (changed, outcome) = changed_by(|facts| {
        let mut report = capable_report();
        report.support.mptcp = false;
        report.unguarded_missing =
            vec![MissingField { field: "mptcp_sock.token".to_owned(), function: "fill_msk".to_owned() }];
        facts.core = Some(Ok(report));
    });
    assert_eq!((changed, outcome), (one("mptcp", Status::Fail), Outcome::KernelUnsupported));
}

#[test]
fn an_optional_hook_is_a_warning_and_a_required_one_a_failure() {
    for hook in HOOKS.iter().filter(|hook| !matches!(hook.attach, Attach::StorageIterator { .. })) {
        let expected = if hook.required {
            (Status::Fail, Outcome::KernelUnsupported)
        } else {
            (Status::Warn, Outcome::CanRun)
        };
        let (changed, outcome) = changed_by(|facts| facts.core = Some(Ok(without_hook(hook.target))));
        assert_eq!((changed, outcome), (one(&format!("hooks/{}", hook.target), expected.0), expected.1));
    }
    let (changed, outcome) = changed_by(|facts| facts.core = Some(Ok(without_hook("bpf_sk_storage_map"))));
    assert_eq!((changed.len(), outcome), (2, Outcome::KernelUnsupported));
}

#[test]
fn a_missing_required_field_fails_and_a_missing_optional_one_warns() {
    let missing = MissingField { field: "tcp_sock.srtt_us".to_owned(), function: "fill_tcp".to_owned() };
    let unguarded = CoreReport { unguarded_missing: vec![missing], ..capable_report() };
    assert_eq!(
        changed_by(|facts| facts.core = Some(Ok(unguarded))),
        (one("fields", Status::Fail), Outcome::KernelUnsupported)
    );
    for field in OPTIONAL_FIELDS {
        let mut guarded = capable_report();
        guarded.support.fields.remove(&field.path());
        let name = format!("fields/{}", field.path());
        assert_eq!(
            changed_by(|facts| facts.core = Some(Ok(guarded))),
            (one(&name, Status::Warn), Outcome::CanRun)
        );
    }
    let costless =
        CoreReport { guarded_missing: vec!["mptcp_sock.notsent_lowat".to_owned()], ..capable_report() };
    assert_eq!(changed_by(|facts| facts.core = Some(Ok(costless))), (vec![], Outcome::CanRun));
}

#[test]
fn a_missing_capability_changes_only_its_own_check() {
    let without = |capability: caps::Capability| {
        changed_by(move |facts| assert!(facts.capabilities.as_mut().unwrap().remove(&capability)))
    };
    assert_eq!(without(CAP_SYS_ADMIN), (one("capabilities/cap_sys_admin", Status::Warn), Outcome::CanRun));
    assert_eq!(without(CAP_SYS_PTRACE), (one("capabilities/cap_sys_ptrace", Status::Warn), Outcome::CanRun));
    // CAP_SYS_ADMIN includes these two.
    assert_eq!(without(CAP_PERFMON), (vec![], Outcome::CanRun));
    assert_eq!(without(CAP_BPF), (vec![], Outcome::CanRun));
}

#[test]
fn without_any_capability_only_permission_is_missing() {
    let (changed, outcome) = changed_by(|facts| facts.capabilities = None);
    let expected = [Status::Fail, Status::Fail, Status::Warn, Status::Warn];
    assert!(changed.iter().map(|(_, status)| *status).eq(expected), "{changed:?}");
    assert_eq!(outcome, Outcome::NotPermitted);
    let both = |facts: &mut Facts| (facts.capabilities, facts.core) = (None, None);
    assert_eq!(changed_by(both).1, Outcome::KernelUnsupported);
}

#[test]
fn root_of_a_rootless_container_is_not_permitted() {
    let changed = changed_by(|facts| facts.in_initial_user_namespace = Some(false));
    assert_eq!(changed, (one("user_namespace", Status::Fail), Outcome::NotPermitted));
}

#[test]
fn only_lockdown_confidentiality_fails() {
    let changed = |mode: &'static str| changed_by(move |facts| facts.lockdown = Some(mode.to_owned()));
    assert_eq!(changed("integrity"), (one("lockdown", Status::Ok), Outcome::CanRun));
    assert_eq!(changed("confidentiality"), (one("lockdown", Status::Fail), Outcome::KernelUnsupported));
}
