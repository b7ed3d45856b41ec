// SPDX-License-Identifier: MIT OR Apache-2.0
//! How well bottlenecks are told: `./dev bench bottleneck`. Builds labelled scenarios in the lab, records the sender's samples, and
//! replays every method on them. What makes traces (`live.rs`) needs root; what judges them (`score.rs`) does not, and is pure.

pub mod cell;
pub mod grid;
pub mod live;
pub mod trace;
pub mod truth;

use std::fs;
use std::path::PathBuf;

use cell::Cell;
use grid::Grid;

const USAGE: &str = "Usage: ./dev bench bottleneck [--grid ci|core|full|training|table3]... [--seeds N] [--traces FOLDER] [--only live|score|fit]";

/// What was asked for.
#[derive(Debug)]
struct Request {
    grids: Vec<Grid>,
    seeds: u32,
    folder: PathBuf,
    live: bool,
}

impl Request {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let folder = std::env::temp_dir().join("mpwatch-bottleneck");
        let mut request = Self { grids: Vec::new(), seeds: 1, folder, live: true };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{argument} wants a value"))?;
            match argument.as_str() {
                "--grid" => {
                    let grid = Grid::ALL.iter().find(|(name, _)| *name == value);
                    request.grids.push(grid.ok_or_else(|| format!("no grid `{value}`"))?.1);
                }
                "--seeds" => request.seeds = value.parse().map_err(|_| "--seeds wants a number".to_owned())?,
                "--traces" => request.folder = value.into(),
                _ => return Err(format!("no option `{argument}`")),
            }
        }
        if request.grids.is_empty() {
            request.grids = vec![Grid::Ci];
        }
        Ok(request)
    }

    fn cells(&self) -> Vec<Cell> {
        self.grids.iter().flat_map(|grid| grid.cells(self.seeds)).collect()
    }
}

/// Does what the arguments ask for.
pub(super) fn run(arguments: impl Iterator<Item = String>, mut print: impl FnMut(&str)) -> Result<(), String> {
    let request = Request::parse(arguments).map_err(|error| format!("{error}\n{USAGE}"))?;
    let failed = |error: std::io::Error| format!("{}: {error}", request.folder.display());
    fs::create_dir_all(&request.folder).map_err(failed)?;
    if request.live {
        make_traces(&request, &mut print);
    }
    Ok(())
}

/// Traces of all cells that have none yet: an interrupted run goes on where it was.
fn make_traces(request: &Request, print: &mut impl FnMut(&str)) {
    let cells = request.cells();
    for (place, cell) in cells.iter().enumerate() {
        if live::labels_of(&request.folder, cell).exists() {
            continue;
        }
        let outcome = match live::run(cell, &request.folder) {
            Ok(labels) => format!(
                "late {:.2}, busy {:.2}, overflowed {}{}",
                labels.late,
                labels.busy,
                labels.overflowed,
                if labels.is_valid() { "" } else { " INVALID" }
            ),
            Err(error) => format!("failed: {error}"),
        };
        print(&format!("{}/{} {cell}: {outcome}\n", place + 1, cells.len()));
    }
}
