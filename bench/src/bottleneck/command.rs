// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `./dev bench bottleneck`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::bottleneck::replay::replay_cell;
use crate::bottleneck::tables::{self, Scores};
use crate::bottleneck::trace::labels_of;
use crate::bottleneck::truth::Labels;
use crate::bottleneck::{fit, live, score, table3};
use crate::machine::cpus;
use mpwatch_lab::bottleneck::cell::{Cell, Layout, Set};
use mpwatch_lab::bottleneck::grid::Grid;

const USAGE: &str = "Usage: ./dev bench bottleneck [--grid ci|core|full|fast|training|table3|caps]... [--seeds N] [--traces FOLDER] [--only live|score|fit]";

/// The parsed command line.
#[derive(Debug)]
struct Request {
    grids: Vec<Grid>,
    seeds: u32,
    folder: PathBuf,
    only: Option<Only>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    Live,
    Score,
    Fit,
}

impl Request {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let folder = std::env::temp_dir().join("mpwatch-bottleneck");
        let mut request = Self { grids: Vec::new(), seeds: 1, folder, only: None };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
            match (argument.as_str(), value.as_str()) {
                ("--grid", name) => {
                    let grid = Grid::ALL.iter().find(|(known, _)| *known == name);
                    request.grids.push(grid.ok_or_else(|| format!("no grid `{name}`"))?.1);
                }
                ("--seeds", number) => {
                    request.seeds = number.parse().map_err(|_| "--seeds needs a number".to_owned())?;
                }
                ("--traces", folder) => request.folder = folder.into(),
                ("--only", "live") => request.only = Some(Only::Live),
                ("--only", "score") => request.only = Some(Only::Score),
                ("--only", "fit") => request.only = Some(Only::Fit),
                (option, value) => return Err(format!("no option `{option} {value}`")),
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

/// Runs the requested steps. Fails on wrong usage and on an unreadable trace.
pub(crate) fn run(
    arguments: impl Iterator<Item = String>,
    mut print: impl FnMut(&str),
) -> Result<(), String> {
    let request = Request::parse(arguments).map_err(|error| format!("{error}\n{USAGE}"))?;
    let failed = |error: std::io::Error| format!("{}: {error}", request.folder.display());
    fs::create_dir_all(&request.folder).map_err(failed)?;
    if matches!(request.only, None | Some(Only::Live)) {
        record_missing(&request, &mut print);
    }
    match request.only {
        Some(Only::Live) => {}
        None | Some(Only::Score) => score_all(&request, &mut print)?,
        Some(Only::Fit) => print(&fit_weights(&request)?),
    }
    Ok(())
}

/// Records the cells that have no trace yet. An interrupted run is continued in this way.
fn record_missing(request: &Request, print: &mut impl FnMut(&str)) {
    let cells = request.cells();
    for (index, cell) in cells.iter().enumerate() {
        if labels_of(&request.folder, cell).exists() || cell.total_mbit() > max_mbit(cell) {
            continue;
        }
        let outcome = match live::record(cell, &request.folder) {
            Ok(Labels { late, busy, overflowed, .. }) => {
                format!("late {late:.2}, CPUs busy {busy:.2}, dropped by the lab {overflowed}")
            }
            Err(error) => format!("failed: {error}"),
        };
        print(&format!("{}/{} {cell}: {outcome}\n", index + 1, cells.len()));
    }
}

/// The highest total rate that this machine can emulate for a cell, Mbit/s. At higher rates, queues stayed empty because the CPUs were the
/// bottleneck.
fn max_mbit(cell: &Cell) -> u32 {
    const RELAYED_PER_CPU: u32 = 225;
    const DIRECT_PER_CPU: u32 = 500;
    let per_cpu = if cell.direct { DIRECT_PER_CPU } else { RELAYED_PER_CPU };
    per_cpu * u32::try_from(cpus()).unwrap_or(1)
}

/// Cells that are not scored, by reason.
#[derive(Default)]
struct Skipped {
    not_run: Vec<String>,
    invalid: Vec<String>,
}

fn score_all(request: &Request, print: &mut impl FnMut(&str)) -> Result<(), String> {
    let (mut pooled, mut by_kind, mut skipped) = (Scores::new(), Scores::new(), Skipped::default());
    let mut table3 = table3::Table::default();
    for cell in request.cells() {
        let Some((labels, verdicts)) = replay_cell(&request.folder, &cell)? else {
            skipped.not_run.push(cell.to_string());
            continue;
        };
        if let Some(flaw) = labels.flaw() {
            skipped.invalid.push(format!("{cell} ({flaw})"));
            continue;
        }
        table3.add(&labels, &verdicts);
        if labels.cell.layout == Layout::TwoRates {
            continue;
        }
        let scores = score::score(&labels, &verdicts);
        for (method, score) in &scores {
            *by_kind.entry(cell.kind()).or_default().entry(method.clone()).or_default() += score;
        }
        pooled.insert(cell.to_string(), scores);
    }
    print(&text(&pooled, &by_kind, &skipped));
    if request.grids.contains(&Grid::Table3) {
        print(&format!("\n## Table III\n\n{}", table3.markdown()));
    }
    Ok(())
}

fn text(pooled: &Scores, by_kind: &Scores, skipped: &Skipped) -> String {
    let mut text = format!("{} cells.\n", pooled.len());
    for (why, cells) in [
        ("Not recorded (not reached, or faster than this machine can emulate)", &skipped.not_run),
        ("Not scored, because the machine was the bottleneck instead of a queue", &skipped.invalid),
    ] {
        if !cells.is_empty() {
            let _ = writeln!(text, "{why} ({}): {}.", cells.len(), cells.join(", "));
        }
    }
    if !pooled.is_empty() {
        let _ = write!(text, "\n## All cells\n\n{}", tables::pooled(pooled));
        let _ = write!(text, "\n## By cell, `{}` at 3 s\n\n{}", tables::OURS, tables::by_cell(by_kind));
    }
    text
}

/// Fits weights to the training cells and returns them as text.
fn fit_weights(request: &Request) -> Result<String, String> {
    let mut examples = Vec::new();
    for cell in request.cells().into_iter().filter(|cell| cell.set == Set::Training) {
        let Some((labels, verdicts)) = replay_cell(&request.folder, &cell)? else { continue };
        if labels.flaw().is_none() {
            examples.push(score::examples(&labels, &verdicts, tables::OURS));
        }
    }
    Ok(fit::fit(&examples).text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Request, String> {
        Request::parse(arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn options_are_checked() {
        assert_eq!(parse(&[]).unwrap().grids, [Grid::Ci]);
        let request = parse(&["--grid", "core", "--grid", "table3", "--only", "score"]).unwrap();
        assert_eq!((request.grids.len(), request.only), (2, Some(Only::Score)));
        for wrong in
            [&["--grid"][..], &["--grid", "small"], &["--only", "nothing"], &["--seeds", "x"], &["core"]]
        {
            assert!(parse(wrong).is_err(), "{wrong:?} was accepted");
        }
    }
}
