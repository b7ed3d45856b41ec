// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bench program runs and prints every row. Its figures mean nothing in such a short time and are not checked.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use mpwatch_bench::command;
use mpwatch_tests::may_run_as_root;

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
        for tracing in ["no tracing", "`--no-ledger`", "full tracing", "no tracing, again"] {
            assert!(has_row(&format!("{traffic} | {tracing}")), "{traffic}, {tracing}");
        }
    }
    for view in ["Connections", "Paths", "Energy", "Peers", "Peers by process: one group", "Health"] {
        assert!(has_row(&format!("{view} | 10000")), "{view}");
    }
    for mode in ["tracing alone", "with detection"] {
        let rows = text.lines().filter(|line| line.starts_with(&format!("| {mode} |")));
        assert_eq!(rows.count(), 3, "{mode}: one row per workload");
    }
    for row in ["`on_segment`", "`ledger_switch`", "`(an empty program)`", "40", "full tracing"] {
        assert!(has_row(row), "{row}");
    }
}
