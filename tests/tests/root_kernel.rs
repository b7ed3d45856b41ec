// SPDX-License-Identifier: MIT OR Apache-2.0
//! The features of the running kernel are as recorded, and mpwatch names the missing feature of a kernel that it cannot trace.
//! Runs on every kernel of the test matrix, also on one without BTF and MPTCP.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use mpwatch_ebpf::tracer::{Tracer, TracerSettings};
use mpwatch_tests::kernel::{KernelRecord, in_guest};
use mpwatch_tests::{CommandOutput, btf, list, may_run_as_root, mpwatch, program, text};
use serde_json::Value;

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Allowed difference of the verifier's instruction count from the record: relative, and at least this many instructions. A stable
/// update of the kernel changes the count slightly; our changes have a larger effect.
const TOLERANCE: (f64, u32) = (0.1, 16);

fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim().to_owned()
}

/// The record of the running kernel, from the output of mpwatch.
fn running_kernel() -> KernelRecord {
    let listed = mpwatch(&["ls", "--json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
    let missing =
        list(&snapshot["host"], "missing").iter().map(|entry| text(entry, "what").to_owned()).collect();
    let tracer = Tracer::start(TracerSettings::default()).unwrap();
    let programs = tracer.programs().unwrap();
    let verified = programs.into_iter().map(|(name, stats)| (name, stats.verified_instructions)).collect();
    KernelRecord { release: release(), missing, verified }
}

#[test]
fn the_kernel_is_as_recorded() {
    if !may_run_as_root() {
        return;
    }
    let kernel = running_kernel();
    print!("{}", kernel.text());
    if std::env::var_os("MPWATCH_BLESS").is_some() {
        kernel.save();
        return;
    }
    let Some(recorded) = KernelRecord::load(&kernel.series()) else {
        assert!(!in_guest(), "the kernels of the guests are recorded");
        println!("SKIP: Linux {} has no record; MPWATCH_BLESS=1 writes one", kernel.series());
        return;
    };
    assert_eq!(kernel.missing, recorded.missing, "missing features of Linux {}", kernel.release);
    let names = |kernel: &KernelRecord| kernel.verified.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&kernel), names(&recorded), "programs loaded");
    for (program, &count) in &kernel.verified {
        let before = recorded.verified[program];
        let allowed = (f64::from(before) * TOLERANCE.0).max(TOLERANCE.1.into());
        assert!(
            f64::from(count.abs_diff(before)) <= allowed,
            "the verifier of Linux {} processes {count} instructions of {program}, the record has {before}. If this is intended, \
             update the record (here MPWATCH_BLESS=1, in guests ./dev vm --bless) and explain it in the commit",
            kernel.release
        );
    }
}

/// Runs mpwatch in a mount namespace where a file or folder of the kernel is replaced.
fn run_with_replaced(replacement: &Path, path: &str, arguments: &[&str]) -> CommandOutput {
    let script = r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#;
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .args([replacement.as_os_str(), path.as_ref(), program().as_os_str()])
        .args(arguments)
        .output()
        .expect("unshare(1) can be started");
    output.into()
}

/// Asserts exit code 3 and that the output names the missing feature.
#[track_caller]
fn assert_refused(output: &CommandOutput, missing: &str) {
    assert_eq!(output.code, Some(3), "{output:?}");
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(text.contains(missing), "`{missing}` is not named: {text}");
    assert!(!text.contains("panicked"), "{text}");
}

/// Every command that traces, and `doctor`.
const TRACING_COMMANDS: [&[&str]; 4] =
    [&["ls"], &["top", "--batch", "-n", "1"], &["record", "/dev/null"], &["doctor"]];
const REGISTER: [&str; 2] = ["control", "congestion"];

#[test]
fn a_kernel_without_btf_is_refused_with_exit_code_3() {
    if !may_run_as_root() {
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    for arguments in TRACING_COMMANDS.into_iter().chain([&REGISTER[..]]) {
        assert_refused(&run_with_replaced(empty.path(), "/sys/kernel/btf", arguments), BTF);
    }
}

/// Runs mpwatch with the BTF of the running kernel, from which one name is removed.
fn kernel_without(name: &str, arguments: &[&str]) -> CommandOutput {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), btf::without(fs::read(BTF).unwrap(), name)).unwrap();
    run_with_replaced(file.path(), BTF, arguments)
}

#[test]
fn a_missing_required_feature_is_named_with_exit_code_3() {
    if !may_run_as_root() || !Path::new(BTF).exists() {
        return;
    }
    let required = [
        ("mptcp_sock", "MPTCP"),
        ("btf_trace_inet_sock_set_state", "inet_sock_set_state"),
        ("btf_trace_tcp_destroy_sock", "tcp_destroy_sock"),
        ("bpf_iter_bpf_sk_storage_map", "bpf_sk_storage_map"),
        ("srtt_us", "tcp_sock.srtt_us"),
    ];
    for (name, missing) in required {
        assert_refused(&kernel_without(name, &["ls"]), missing);
    }
    let (name, missing) = required[0];
    assert_refused(&kernel_without(name, &["doctor"]), missing);
}

#[test]
fn a_kernel_that_cannot_register_a_congestion_control_is_refused_with_exit_code_3() {
    if !may_run_as_root() || !Path::new(BTF).exists() {
        return;
    }
    for missing in ["bpf_struct_ops_tcp_congestion_ops", "tcp_slow_start"] {
        assert_refused(&kernel_without(missing, &REGISTER), missing);
        let doctor = kernel_without(missing, &["doctor"]);
        assert_eq!(doctor.code, Some(0), "{doctor:?}");
        assert!(doctor.stdout.contains(missing), "{}", doctor.stdout);
    }
}

#[test]
fn a_missing_optional_feature_is_named_and_tracing_works() {
    if !may_run_as_root() || !Path::new(BTF).exists() {
        return;
    }
    for (name, hook) in [("btf_trace_tcp_probe", "tcp_probe"), ("bpf_iter_task_file", "task_file")] {
        let listed = kernel_without(name, &["ls", "--json"]);
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
        let missing = list(&snapshot["host"], "missing");
        let entry = missing.iter().find(|entry| text(entry, "what") == hook).expect("the hook is named");
        assert!(!text(entry, "costs").is_empty() && !text(entry, "why").is_empty(), "{entry}");
        let doctor = kernel_without(name, &["doctor"]);
        assert_eq!(doctor.code, Some(0), "{doctor:?}");
        assert!(doctor.stdout.contains(hook), "{}", doctor.stdout);
    }
}
