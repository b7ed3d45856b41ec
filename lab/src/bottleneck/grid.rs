// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grids: sets of cells. No I/O.

use crate::bottleneck::cell::{App, Cell, Congestion, Cross, Layout, Set};

/// A set of cells, as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// Six cells that are easy to decide. A run takes a minute.
    Ci,
    /// The cells for which verdicts must be right: shared and disjoint queues, 2 to 8 subflows, 20 to 500 Mbit/s.
    Core,
    /// The core grid, and cells that are harder to decide than the core grid's or rarer in practice.
    Full,
    /// Links of 500 Mbit/s, and eight links of 100 Mbit/s, without emulated delay.
    Fast,
    /// The cells on which weights are fitted.
    Training,
    /// Table III of `[MPTCP-D]`.
    Table3,
    /// Cells whose subflows share a rate, but no queue.
    Caps,
}

impl Grid {
    /// All grids by name.
    pub const ALL: [(&str, Self); 7] = [
        ("ci", Self::Ci),
        ("core", Self::Core),
        ("full", Self::Full),
        ("fast", Self::Fast),
        ("training", Self::Training),
        ("table3", Self::Table3),
        ("caps", Self::Caps),
    ];

    /// The cells of the grid, each with `seeds` seeds (`Ci`: one). Sorted by seed, so that an interrupted run covers all cells for its first seeds.
    #[must_use]
    pub fn cells(self, seeds: u32) -> Vec<Cell> {
        match self {
            Self::Ci => ci(),
            Self::Core => with_seeds(&core(Set::Evaluation, &[2, 4, 8], &[20, 100, 500]), seeds),
            Self::Full => {
                let mut cells = core(Set::Evaluation, &[2, 4, 8], &[20, 100, 500]);
                cells.extend(harder(Set::Evaluation, &[50, 200]));
                with_seeds(&cells, seeds)
            }
            Self::Fast => with_seeds(&fast(), seeds),
            Self::Training => {
                let mut cells = core(Set::Training, &[2, 4], Set::Training.rates());
                cells.extend(core(Set::Training, &[8], &[12, 35]));
                cells.extend(harder(Set::Training, &[35]));
                with_seeds(&cells, seeds)
            }
            Self::Table3 => table3(seeds),
            Self::Caps => with_seeds(&caps(), seeds),
        }
    }
}

fn with_seeds(cells: &[Cell], count: u32) -> Vec<Cell> {
    let with_seed = |seed| cells.iter().map(move |cell| Cell { seed, ..*cell });
    cells.first().map_or_else(Vec::new, |first| first.set.seeds(count).flat_map(with_seed).collect())
}

fn core(set: Set, subflows: &[usize], rates: &[u32]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &mbit in rates {
        for &subflows in subflows {
            for layout in [Layout::Shared, Layout::Disjoint] {
                for cross in [Cross::None, Cross::Bulk] {
                    for unequal in [false, true] {
                        for congestion in [Congestion::Cubic, Congestion::Bbr] {
                            let base = Cell::new(set, layout, mbit);
                            cells.push(Cell { subflows, cross, unequal, congestion, ..base });
                        }
                    }
                }
            }
        }
    }
    cells
}

/// Cells that are harder to decide than the cells of the core grid, or rarer in practice.
fn harder(set: Set, rates: &[u32]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &mbit in rates {
        let cell = |layout| Cell::new(set, layout, mbit);
        let (shared, disjoint) = (cell(Layout::Shared), cell(Layout::Disjoint));
        for base in [shared, disjoint] {
            cells.push(Cell { congestion: Congestion::Reno, ..base });
            cells.push(Cell { cross: Cross::Short, ..base });
            cells.push(Cell { app: App::Limited, ..base });
            cells.push(Cell { app: App::Limited, cross: Cross::Bulk, ..base });
        }
        for congestion in [Congestion::Cubic, Congestion::Bbr] {
            cells.push(Cell { subflows: 4, congestion, ..cell(Layout::Partly) });
            cells.push(Cell {
                subflows: 4,
                cross: Cross::Bulk,
                unequal: true,
                congestion,
                ..cell(Layout::Partly)
            });
            cells.push(Cell { seconds: 10, congestion, ..cell(Layout::Switching) });
        }
        cells.push(cell(Layout::Fair));
    }
    cells
}

/// Cells whose rates are too high for user-space relays: queues are the only source of delay.
fn fast() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (layout, subflows, mbit) in [
        (Layout::Shared, 2, 500),
        (Layout::Shared, 4, 500),
        (Layout::Shared, 8, 500),
        (Layout::Disjoint, 2, 500),
        (Layout::Disjoint, 8, 100),
    ] {
        for cross in [Cross::None, Cross::Bulk] {
            for congestion in [Congestion::Cubic, Congestion::Bbr] {
                let base = Cell::new(Set::Evaluation, layout, mbit);
                cells.push(Cell { subflows, cross, congestion, direct: true, ..base });
            }
        }
    }
    cells
}

/// Cells whose subflows share a rate but no queue. The seed determines buffer and RTT, and with them whether the rates vary.
fn caps() -> Vec<Cell> {
    let mut cells = Vec::new();
    for mbit in [20, 100] {
        for subflows in [2, 4] {
            for congestion in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr] {
                let fair = Cell::new(Set::Evaluation, Layout::Fair, mbit);
                cells.push(Cell { subflows, congestion, seconds: 12, ..fair });
            }
        }
    }
    cells
}

/// Cells with slow links, which even a busy machine can emulate, and with bottlenecks that are easy to decide.
fn ci() -> Vec<Cell> {
    let cell = |layout| Cell { seconds: 5, ..Cell::new(Set::Evaluation, layout, 20) };
    let (shared, disjoint) = (cell(Layout::Shared), cell(Layout::Disjoint));
    vec![
        shared,
        Cell { cross: Cross::Bulk, ..shared },
        Cell { congestion: Congestion::Bbr, unequal: true, ..shared },
        disjoint,
        Cell { cross: Cross::Bulk, ..disjoint },
        Cell { subflows: 4, unequal: true, ..cell(Layout::Partly) },
    ]
}

/// Two paths of 100 and 20 Mbit/s with 1 (the control), 2, 4 and 8 subflows on the first path. Long transfers, and transfers of 0.5 MB.
fn table3(rounds: u32) -> Vec<Cell> {
    let mut cells = Vec::new();
    for seed in Set::Evaluation.seeds(rounds) {
        for subflows in [2, 4, 8, 9] {
            let base =
                Cell { subflows, seed, connections: 5, ..Cell::new(Set::Evaluation, Layout::TwoRates, 100) };
            cells.push(Cell { seconds: 20, ..base });
            cells.push(Cell { app: App::Short, seconds: 8, ..base });
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_core_has_144_cells_and_no_two_cells_have_the_same_name() {
        assert_eq!(Grid::Core.cells(1).len(), 144);
        let names: BTreeSet<String> = Grid::Full.cells(2).iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), Grid::Full.cells(2).len());
    }

    #[test]
    fn training_and_evaluation_share_no_rate_rtt_buffer_or_seed() {
        let figures = |grid: Grid| {
            let cells = grid.cells(9);
            let rates: BTreeSet<u32> = cells.iter().map(|cell| cell.mbit).collect();
            let rtts: BTreeSet<u32> =
                cells.iter().flat_map(|cell| [cell.rtt_ms(0), cell.rtt_ms(1)]).collect();
            let buffers: BTreeSet<u32> = cells.iter().map(Cell::buffer_ms).collect();
            let seeds: BTreeSet<u32> = cells.iter().map(|cell| cell.seed).collect();
            [rates, rtts, buffers, seeds]
        };
        for evaluated in [Grid::Ci, Grid::Core, Grid::Full, Grid::Fast, Grid::Table3, Grid::Caps] {
            for (trained, evaluated) in figures(Grid::Training).iter().zip(&figures(evaluated)) {
                assert!(trained.is_disjoint(evaluated), "{trained:?} {evaluated:?}");
            }
            assert!(evaluated.cells(1).iter().all(|cell| cell.set == Set::Evaluation));
        }
    }
}
