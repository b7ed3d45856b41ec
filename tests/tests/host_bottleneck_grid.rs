// SPDX-License-Identifier: MIT OR Apache-2.0
//! A minute of the evaluation, live: the cells of the grid `ci`. Bounds are wide, because the machine may be busy with other things; the
//! figures that count are in docs/bottleneck.md.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use mpwatch_bench::bottleneck::grid::Grid;
use mpwatch_bench::bottleneck::score::{Score, score};
use mpwatch_bench::bottleneck::tables::OURS;
use mpwatch_bench::bottleneck::{live, replayed};
use mpwatch_tests::{may_run_as_root, skip};

/// Wrong verdicts among so many pairs are a noisy machine; more are a fault.
const MOST_WRONG: u32 = 2;

#[test]
fn live_cells_are_judged_rightly_or_not_at_all() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let mut all = Score::default();
    let mut flaws = Vec::new();
    for cell in Grid::Ci.cells(1) {
        live::run(&cell, folder.path()).unwrap();
        let (labels, verdicts) = replayed(folder.path(), &cell).unwrap().expect("it was run");
        assert_eq!(
            verdicts.pairs().len(),
            cell.subflows * (cell.subflows - 1) / 2,
            "{cell}: all subflows joined"
        );
        if let Some(flaw) = labels.flaw() {
            flaws.push(format!("{cell}: {flaw}"));
            continue;
        }
        let ours = score(&labels, &verdicts).remove(OURS).expect("our own method judges");
        println!("{cell}: {ours:?}");
        all += &ours;
    }
    if flaws.len() > 3 {
        return skip(&format!("the machine is too busy to emulate networks: {flaws:?}"));
    }
    let (last, wrong) = (all.at[2], all.at[2].wrong());
    assert!(wrong <= MOST_WRONG, "{wrong} wrong of {}: {all:?}", last.count());
    assert!(!all.times.is_empty(), "no right verdict in a minute: {all:?}");
}
