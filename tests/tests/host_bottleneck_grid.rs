// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records and scores the cells of the grid `ci` live, which takes a minute. Limits are generous, because other work on the machine may
//! disturb the cells. docs/bottleneck.md has the published figures.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use mpwatch_bench::bottleneck::live::record;
use mpwatch_bench::bottleneck::replay::replay_cell;
use mpwatch_bench::bottleneck::score::{Score, score};
use mpwatch_bench::bottleneck::tables::OURS;
use mpwatch_lab::bottleneck::grid::Grid;
use mpwatch_tests::{may_run_as_root, skip};

/// Maximum number of wrong verdicts that a busy machine may cause.
const MAX_WRONG: u32 = 2;

#[test]
fn verdicts_on_live_cells_are_right_or_undecided() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let mut all = Score::default();
    let mut flaws = Vec::new();
    for cell in Grid::Ci.cells(1) {
        record(&cell, folder.path()).unwrap();
        let (labels, verdicts) = replay_cell(folder.path(), &cell).unwrap().expect("the cell was recorded");
        assert_eq!(
            verdicts.pairs().len(),
            cell.subflows * (cell.subflows - 1) / 2,
            "{cell}: all subflows joined"
        );
        if let Some(flaw) = labels.flaw() {
            flaws.push(format!("{cell}: {flaw}"));
            continue;
        }
        let ours = score(&labels, &verdicts).remove(OURS).expect("our method evaluates every cell");
        println!("{cell}: {ours:?}");
        all += &ours;
    }
    if flaws.len() > 3 {
        return skip(&format!("the machine is too busy to emulate networks: {flaws:?}"));
    }
    let (last, wrong) = (all.at[2], all.at[2].wrong());
    assert!(wrong <= MAX_WRONG, "{wrong} wrong of {}: {all:?}", last.count());
    assert!(!all.times.is_empty(), "no right verdict in a minute: {all:?}");
}
