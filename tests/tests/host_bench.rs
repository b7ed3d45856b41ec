// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bench program runs and prints every row. After such a short time its figures have no meaning, so they are not checked.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::process::Command;

use mpwatch_bench::command;
use mpwatch_bench::energy::processes;
use mpwatch_tests::{may_run_as_root, program, skip};
use tempfile::TempDir;

const TRACING: [&str; 5] =
    ["no tracing", "`--ledger off`", "`--ledger sampled`", "`--ledger exact`", "no tracing, again"];

/// Not a test, but the entry point of the processes that generate traffic or other load.
#[test]
fn child_process() {
    processes::run_as_child();
}

#[test]
fn the_bench_prints_a_row_for_everything_that_it_compares() {
    if !may_run_as_root() {
        return;
    }
    let mut text = String::new();
    command::run(["--quick".to_owned()].into_iter(), |piece| text.push_str(piece)).unwrap();
    println!("{text}");
    let has_row = |cells: &str| text.lines().any(|line| line.starts_with(&format!("| {cells} |")));
    for traffic in ["bulk", "64 B requests, one CPU", "64 B requests, two CPUs"] {
        for tracing in TRACING {
            assert!(has_row(&format!("{traffic} | {tracing}")), "{traffic}, {tracing}");
        }
    }
    for work in ["a system call, `getppid()`", "a plain TCP request, 64 B"] {
        for tracing in TRACING {
            assert!(has_row(&format!("{work} | {tracing}")), "{work}, {tracing}");
        }
    }
    for scenario in ["bulk", "64 B requests", "bursts of 100 ms", "bulk, a bystander sends plain TCP"] {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| {scenario} |")) && line.contains(" of 1 |"));
        assert!(row.is_some(), "{scenario}: no row with bounds");
    }
    // If another tool is missing or does not load, its row has the reason.
    let peers = text.lines().skip_while(|line| *line != "## peers");
    let of_tool = |tool: &str| peers.clone().find(|line| line.starts_with(&format!("| {tool} |")));
    for ledger in ["off", "sampled", "exact"] {
        let row = of_tool(&format!("`--ledger {ledger}`")).expect(ledger);
        assert!(row.contains("| 0 of 20 |"), "mpwatch has missed connections: {row}");
    }
    for tool in [
        "`ss -tiM`, every second",
        "`tcpdump -i any -s128 -w`",
        "bpftrace, the same tracepoints",
        "`tcprtt` (libbpf-tools)",
    ] {
        let row = of_tool(tool).expect(tool);
        assert!(
            row.contains(" of 20 |")
                || row.contains("not installed: apt-get")
                || row.contains("does not load: "),
            "{row}"
        );
    }
    for view in ["Connections", "Paths", "Energy", "Peers", "Peers by process: one group", "Health"] {
        assert!(has_row(&format!("{view} | 10000")), "{view}");
    }
    for mode in ["tracing alone", "with detection"] {
        let rows = text.lines().filter(|line| line.starts_with(&format!("| {mode} |")));
        assert_eq!(rows.count(), 3, "{mode}: one row per workload");
    }
    assert!(has_row("of both ends, in the database"), "new connections");
    for row in ["`on_segment`", "`ledger_switch`", "`(an empty program)`", "40", "full tracing"] {
        assert!(has_row(row), "{row}");
    }
}

/// The soak runs in a process of its own, because each job of the churn starts the same program again.
#[test]
fn a_soak_writes_its_samples_and_a_chart_and_leaves_nothing_behind() {
    if !may_run_as_root() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let soak = Command::new(program().with_file_name("mpwatch-bench"))
        .args(["soak", "--minutes", "0.2", "--connections", "20", "--jobs", "2", "--record", "--output"])
        .arg(folder.path())
        .env("MPWATCH_BIN", program())
        .output()
        .expect("the bench is built: cargo build -p mpwatch-bench");
    let (text, log) = (String::from_utf8_lossy(&soak.stdout), String::from_utf8_lossy(&soak.stderr));
    if log.contains("needs a cgroup2 mount") {
        return skip("this test needs a cgroup2 mount");
    }
    println!("{text}");
    assert!(soak.status.success(), "{log}");
    for process in ["daemon", "record"] {
        assert!(text.contains(&format!("| {process} | anonymous memory")), "{process}");
        assert!(text.contains(&format!("\n{process}: ended with exit status: 0")), "{process}");
    }
    assert!(text.contains(", 0 failed."), "{log}");
    let csv = fs::read_to_string(folder.path().join("soak.csv")).unwrap();
    assert!(csv.lines().filter(|line| line.contains(",daemon,")).count() >= 2, "{csv}");
    assert!(fs::read_to_string(folder.path().join("soak.svg")).unwrap().contains("<polyline"));
    let is_left = |entry: fs::DirEntry| entry.file_name().to_string_lossy().contains("-soak");
    assert!(!fs::read_dir("/run/netns").unwrap().flatten().any(is_left), "a namespace is left");
}
