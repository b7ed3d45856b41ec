// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live verdicts in the scenarios of the grid `ci`, about a minute. The bounds are wide, because the machine may be busy;
//! docs/bottleneck.md has the measured accuracy.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use mpwatch_tests::bench::bottleneck::grid::Grid;
use mpwatch_tests::bench::bottleneck::score::{Score, score};
use mpwatch_tests::bench::bottleneck::tables::OURS;
use mpwatch_tests::bench::bottleneck::{live, replayed};
use mpwatch_tests::{may_run_as_root, skip};

/// Maximum number of wrong verdicts, for a busy machine.
const MAX_WRONG: u32 = 2;

#[test]
fn live_verdicts_are_right_or_undecided() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let mut all = Score::default();
    let mut flaws = Vec::new();
    for cell in Grid::Ci.cells(1) {
        live::run(&cell, folder.path()).unwrap();
        let (labels, verdicts) = replayed(folder.path(), &cell).unwrap().expect("the cell was run");
        assert_eq!(
            verdicts.pairs().len(),
            cell.subflows * (cell.subflows - 1) / 2,
            "{cell}: all subflows joined"
        );
        if let Some(flaw) = labels.flaw() {
            flaws.push(format!("{cell}: {flaw}"));
            continue;
        }
        let score_of_cell = score(&labels, &verdicts).remove(OURS).expect("the default method has verdicts");
        println!("{cell}: {score_of_cell:?}");
        all += &score_of_cell;
    }
    if flaws.len() > 3 {
        return skip(&format!("the machine is too busy to emulate networks: {flaws:?}"));
    }
    let (last, wrong) = (all.at[2], all.at[2].wrong());
    assert!(wrong <= MAX_WRONG, "{wrong} wrong of {}: {all:?}", last.count());
    assert!(!all.times.is_empty(), "no right verdict in a minute: {all:?}");
}
