// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the BPF object against the BTF of other kernels: the object loads on each kernel, and each kernel lacks
//! exactly the listed fields and hooks.
//! Needs no privileges, only the fixtures of `tests/refresh-btf`. Tests in virtual machines check that the counters are right.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::support::core_check::{self, CoreReport};
use mpwatch_ebpf::support::hook::{HOOKS, Hook};
use mpwatch_tests::btf::without;
use mpwatch_tests::skip;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/btf")
}

fn btf_of(series: &str) -> Vec<u8> {
    let packed = fs::read(fixtures().join(format!("{series}.btf.zst"))).unwrap();
    zstd::decode_all(packed.as_slice()).unwrap()
}

fn check_bytes(btf: &[u8]) -> CoreReport {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(btf).unwrap();
    core_check::check_file(file.path()).unwrap()
}

fn check(series: &str) -> CoreReport {
    check_bytes(&btf_of(series))
}

fn missing(report: &CoreReport) -> Vec<&str> {
    report.plan.missing.iter().map(|missing| missing.what.as_str()).collect()
}

#[test]
fn every_fixture_names_its_package_and_has_a_test() {
    let mut names: Vec<_> = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["6.1.btf.zst", "6.1.package", "6.12.btf.zst", "6.12.package", "7.2.btf.zst", "7.2.package"]
    );
    for series in ["6.1", "6.12", "7.2"] {
        let package = fs::read_to_string(fixtures().join(format!("{series}.package"))).unwrap();
        assert!(package.contains(&format!("-{series}.")), "{package}");
    }
}

#[test]
fn the_object_loads_on_every_supported_kernel() {
    for series in ["6.1", "6.12", "7.2"] {
        let report = check(series);
        assert_eq!(
            report.unguarded_missing,
            [],
            "fields that Linux {series} does not have are read without a check"
        );
        assert_eq!(report.plan.obstacles, [""; 0], "Linux {series}");
        let loaded = |hook: &&Hook| report.plan.programs.contains(&hook.program);
        let mut lacking = HOOKS.iter().filter(|hook| !loaded(hook)).map(|hook| hook.target);
        assert!(lacking.all(|target| missing(&report).contains(&target)), "Linux {series}");
    }
}

/// The name of `mptcp_pm_data.subflows` since Linux 6.18.
const EXTRA_SUBFLOWS: &str = "mptcp_pm_data.extra_subflows";
/// Linux 7.2 keeps a state of each element of socket storage.
const STORAGE_STATE: &str = "bpf_local_storage_elem.state";
/// The name of `kernfs_node.parent` since Linux 6.15.
const RENAMED_PARENT: &str = "kernfs_node.__parent";

#[test]
fn linux_6_1_lacks_byte_counters_of_connections_and_cpu_time_of_system_calls() {
    let report = check("6.1");
    assert_eq!(
        report.guarded_missing,
        [
            STORAGE_STATE,
            RENAMED_PARENT,
            EXTRA_SUBFLOWS,
            "mptcp_sock.bytes_acked",
            "mptcp_sock.bytes_received",
            "mptcp_sock.bytes_retrans",
            "mptcp_sock.bytes_sent",
            "mptcp_sock.notsent_lowat",
            "tcp_sock.total_rto",
        ]
    );
    assert_eq!(
        missing(&report),
        ["sock_send_length", "sock_recv_length", "mptcp_sock.bytes_retrans", "tcp_sock.total_rto"]
    );
}

#[test]
fn linux_6_12_lacks_nothing() {
    let report = check("6.12");
    assert_eq!(report.guarded_missing, [STORAGE_STATE, RENAMED_PARENT, EXTRA_SUBFLOWS]);
    assert_eq!(missing(&report), [""; 0]);
}

#[test]
fn linux_7_2_lacks_nothing() {
    let report = check("7.2");
    assert_eq!(report.guarded_missing, ["kernfs_node.parent", "mptcp_pm_data.subflows"]);
    assert_eq!(missing(&report), [""; 0]);
}

#[test]
fn a_field_that_is_read_without_a_check_is_found_and_named() {
    let report = check_bytes(&without(btf_of("6.12"), "srtt_us"));
    let unguarded: Vec<_> = report.unguarded_missing.iter().map(ToString::to_string).collect();
    let readers = ["fill_tcp", "handle_state_change", "on_segment"];
    assert_eq!(unguarded, readers.map(|function| format!("tcp_sock.srtt_us (read by {function})")));
    assert_eq!(report.guarded_missing, [STORAGE_STATE, RENAMED_PARENT, EXTRA_SUBFLOWS]);
}

#[test]
fn a_missing_optional_field_is_not_an_error() {
    let report = check_bytes(&without(btf_of("6.12"), "total_rto"));
    assert_eq!(report.unguarded_missing, []);
    assert_eq!(report.guarded_missing, [STORAGE_STATE, RENAMED_PARENT, EXTRA_SUBFLOWS, "tcp_sock.total_rto"]);
}

#[test]
fn a_kernel_without_mptcp_is_an_obstacle() {
    let report = check_bytes(&without(btf_of("6.12"), "mptcp_sock"));
    assert_eq!(report.plan.obstacles, ["the kernel has no MPTCP (CONFIG_MPTCP is off)"]);
}

#[test]
fn the_running_kernel_has_all_required_fields() {
    let path = Path::new("/sys/kernel/btf/vmlinux");
    if !path.exists() {
        skip("this kernel has no BTF; boot one with CONFIG_DEBUG_INFO_BTF=y");
        return;
    }
    assert_eq!(core_check::check_file(path).unwrap().unguarded_missing, []);
}

#[test]
fn a_file_that_is_not_btf_is_refused_with_a_reason() {
    let refusal = |file: &str| core_check::check_file(&fixtures().join(file)).unwrap_err().to_string();
    assert!(refusal("6.1.package").contains("6.1.package is not a kernel's raw BTF"));
    assert!(refusal("6.1.btf.zst").contains("a compressed file; unpack it first"));
    assert!(refusal("absent").contains("cannot read"));
}

#[test]
fn a_truncated_btf_is_an_error() {
    let whole = btf_of("6.1");
    for length in [2, 8, 24, 1000, whole.len() - 1] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&whole[..length]).unwrap();
        assert!(core_check::check_file(file.path()).is_err(), "{length} bytes");
    }
}
