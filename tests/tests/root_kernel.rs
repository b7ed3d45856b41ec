// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the running kernel can do and what mpwatch says of it: exactly what is on record of it, and of a kernel that cannot be
//! traced what is missing. Runs on every kernel of the matrix, also on one without BTF and without MPTCP.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use mpwatch_ebpf::tracer::{Settings, Tracer};
use mpwatch_tests::kernel::{Kernel, in_guest};
use mpwatch_tests::{Outcome, btf, list, may_run_as_root, mpwatch, program, text};
use serde_json::Value;

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// How far an effort of the verifier may be from the one on record, as a part and at least in instructions: a newer patch of a
/// series moves it a little, what we change moves it more.
const TOLERANCE: (f64, u32) = (0.1, 16);

fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim().to_owned()
}

/// As the program itself tells it.
fn this_kernel() -> Kernel {
    let listed = mpwatch(&["ls", "--json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
    let missing = list(&snapshot["host"], "missing").iter().map(|one| text(one, "what").to_owned()).collect();
    let tracer = Tracer::start(Settings::default()).unwrap();
    let programs = tracer.programs().unwrap();
    let verified = programs.into_iter().map(|(name, stats)| (name, stats.verified_instructions)).collect();
    Kernel { release: release(), missing, verified }
}

#[test]
fn the_kernel_is_as_on_record() {
    if !may_run_as_root() {
        return;
    }
    let kernel = this_kernel();
    print!("{}", kernel.text());
    if std::env::var_os("MPWATCH_BLESS").is_some() {
        kernel.record();
        return;
    }
    let Some(known) = Kernel::on_record(&kernel.series()) else {
        assert!(!in_guest(), "the kernels of the guests are on record");
        println!("SKIP: Linux {} is not on record; MPWATCH_BLESS=1 puts it there", kernel.series());
        return;
    };
    assert_eq!(kernel.missing, known.missing, "what Linux {} lacks", kernel.release);
    let names = |kernel: &Kernel| kernel.verified.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&kernel), names(&known), "programs loaded");
    for (program, &count) in &kernel.verified {
        let before = known.verified[program];
        let allowed = (f64::from(before) * TOLERANCE.0).max(TOLERANCE.1.into());
        assert!(
            f64::from(count.abs_diff(before)) <= allowed,
            "the verifier of Linux {} processes {count} instructions of {program}, on record are {before}. If that is meant, \
             bless the new figure (here MPWATCH_BLESS=1, in guests ./dev vm --bless) and say why in the commit",
            kernel.release
        );
    }
}

/// Runs mpwatch where a file or an empty folder stands in the place of something of the kernel's, for this process only.
fn with_in_place_of(stand_in: &Path, place: &str, arguments: &[&str]) -> Outcome {
    let script = r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#;
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .args([stand_in.as_os_str(), place.as_ref(), program().as_os_str()])
        .args(arguments)
        .output()
        .expect("unshare(1) is there");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[track_caller]
fn refused(outcome: &Outcome, names: &str) {
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains(names), "`{names}` is not named: {said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Every command that traces, and the doctor.
const TRACING: [&[&str]; 4] =
    [&["ls"], &["top", "--batch", "-n", "1"], &["record", "/dev/null"], &["doctor"]];

#[test]
fn a_kernel_without_btf_is_refused_with_exit_code_3() {
    if !may_run_as_root() {
        return;
    }
    let nothing = tempfile::tempdir().unwrap();
    for arguments in TRACING {
        if Path::new(BTF).exists() {
            refused(&with_in_place_of(nothing.path(), "/sys/kernel/btf", arguments), BTF);
        } else {
            println!("Linux {} really has none", release());
            refused(&mpwatch(arguments), BTF);
        }
    }
}

/// The running kernel's BTF, in which it lacks what has this name.
fn kernel_without(name: &str, arguments: &[&str]) -> Outcome {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), btf::without(fs::read(BTF).unwrap(), name)).unwrap();
    with_in_place_of(file.path(), BTF, arguments)
}

#[test]
fn what_a_kernel_cannot_be_traced_without_is_named_with_exit_code_3() {
    if !may_run_as_root() || !Path::new(BTF).exists() {
        return;
    }
    let needed = [
        ("mptcp_sock", "MPTCP"),
        ("btf_trace_inet_sock_set_state", "inet_sock_set_state"),
        ("btf_trace_tcp_destroy_sock", "tcp_destroy_sock"),
        ("bpf_iter_bpf_sk_storage_map", "bpf_sk_storage_map"),
        ("srtt_us", "tcp_sock.srtt_us"),
    ];
    for (name, told) in needed {
        refused(&kernel_without(name, &["ls"]), told);
    }
    let (name, told) = needed[0];
    refused(&kernel_without(name, &["doctor"]), told);
}

#[test]
fn what_a_kernel_can_do_without_is_named_and_costs_nothing_else() {
    if !may_run_as_root() || !Path::new(BTF).exists() {
        return;
    }
    for (name, told) in [("btf_trace_tcp_probe", "tcp_probe"), ("bpf_iter_task_file", "task_file")] {
        let listed = kernel_without(name, &["ls", "--json"]);
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
        let missing = list(&snapshot["host"], "missing");
        let this_one = missing.iter().find(|one| text(one, "what") == told).expect("it is named");
        assert!(!text(this_one, "costs").is_empty() && !text(this_one, "why").is_empty(), "{this_one}");
        let doctor = kernel_without(name, &["doctor"]);
        assert_eq!(doctor.code, Some(0), "{doctor:?}");
        assert!(doctor.stdout.contains(told), "{}", doctor.stdout);
    }
}
