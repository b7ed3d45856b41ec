// SPDX-License-Identifier: MIT OR Apache-2.0
//! How well bottlenecks are told: `./dev bench bottleneck`. Builds labelled scenarios in the lab, records the sender's samples, and
//! replays every method on them. What makes traces (`live.rs`) needs root; what judges them (`score.rs`) does not, and is pure.

pub mod caps;
pub mod cell;
pub mod fit;
pub mod grid;
pub mod live;
pub mod score;
pub mod table3;
pub mod tables;
pub mod trace;
pub mod truth;
pub mod verdict;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cell::{App, Cell, Set};
use grid::Grid;
use tables::Scores;
use truth::Labels;
use verdict::Verdicts;

use crate::harness::mpwatch;

const USAGE: &str = "Usage: ./dev bench bottleneck [--grid ci|core|full|fast|training|table3|caps|across]... [--seeds N] [--traces FOLDER] [--only live|score|rested|across|fit]";

/// What was asked for.
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
    /// As `Score`, with samples as the kernel takes them of paths that rest.
    Rested,
    /// As `Score`, of subflows of different connections to one address.
    Across,
    Fit,
}

impl Request {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let folder = std::env::temp_dir().join("mpwatch-bottleneck");
        let mut request = Self { grids: Vec::new(), seeds: 1, folder, only: None };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{argument} wants a value"))?;
            match (argument.as_str(), value.as_str()) {
                ("--grid", name) => {
                    let grid = Grid::ALL.iter().find(|(known, _)| *known == name);
                    request.grids.push(grid.ok_or_else(|| format!("no grid `{name}`"))?.1);
                }
                ("--seeds", number) => {
                    request.seeds = number.parse().map_err(|_| "--seeds wants a number".to_owned())?;
                }
                ("--traces", folder) => request.folder = folder.into(),
                ("--only", "live") => request.only = Some(Only::Live),
                ("--only", "score") => request.only = Some(Only::Score),
                ("--only", "rested") => request.only = Some(Only::Rested),
                ("--only", "across") => request.only = Some(Only::Across),
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

/// Does what the arguments ask for.
pub(crate) fn run(
    arguments: impl Iterator<Item = String>,
    mut print: impl FnMut(&str),
) -> Result<(), String> {
    let request = Request::parse(arguments).map_err(|error| format!("{error}\n{USAGE}"))?;
    let failed = |error: std::io::Error| format!("{}: {error}", request.folder.display());
    fs::create_dir_all(&request.folder).map_err(failed)?;
    if matches!(request.only, None | Some(Only::Live)) {
        make_traces(&request, &mut print);
    }
    match request.only {
        Some(Only::Live) => {}
        None | Some(Only::Score | Only::Rested | Only::Across) => judge(&request, &mut print)?,
        Some(Only::Fit) => print(&fit(&request)?),
    }
    Ok(())
}

/// Traces of all cells that have none yet: an interrupted run goes on where it was.
fn make_traces(request: &Request, print: &mut impl FnMut(&str)) {
    let cells = request.cells();
    for (place, cell) in cells.iter().enumerate() {
        if live::labels_of(&request.folder, cell).exists() || cell.total_mbit() > most_mbit(cell) {
            continue;
        }
        let outcome = match live::run(cell, &request.folder) {
            Ok(Labels { late, busy, overflowed, .. }) => {
                format!("late {late:.2}, CPUs busy {busy:.2}, overflowed {overflowed}")
            }
            Err(error) => format!("failed: {error}"),
        };
        print(&format!("{}/{} {cell}: {outcome}\n", place + 1, cells.len()));
    }
}

/// What this machine can emulate of a cell, Mbit/s. Beyond, the machine is the bottleneck (measured: such cells do not fill their queues).
fn most_mbit(cell: &Cell) -> u32 {
    const RELAYED: u32 = 225;
    const DIRECT: u32 = 500;
    let of_a_cpu = if cell.direct { DIRECT } else { RELAYED };
    of_a_cpu * std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

/// The labels of a cell and what every method says of its trace. `None`: it was not run.
pub fn replayed(folder: &Path, cell: &Cell) -> Result<Option<(Labels, Verdicts)>, String> {
    replayed_as(folder, cell, if cell.lone { &["--across"] } else { &[] })
}

/// Likewise, with further options of the replay.
fn replayed_as(folder: &Path, cell: &Cell, how: &[&str]) -> Result<Option<(Labels, Verdicts)>, String> {
    let file = live::labels_of(folder, cell);
    let Ok(text) = fs::read(&file) else { return Ok(None) };
    let wrong = |error: serde_json::Error| format!("{}: {error}", file.display());
    let labels: Labels = serde_json::from_slice(&text).map_err(wrong)?;
    let trace = live::trace_of(folder, cell);
    let replay = ["replay", &trace.to_string_lossy(), "--verdicts"];
    let outcome = mpwatch(&[&replay, how].concat());
    if outcome.code != Some(0) {
        return Err(format!("{}: {}", trace.display(), outcome.stderr));
    }
    Ok(Some((labels, Verdicts::parse(&outcome.stdout).map_err(wrong)?)))
}

/// Cells that do not count, and why.
#[derive(Default)]
struct LeftOut {
    not_run: Vec<String>,
    invalid: Vec<String>,
}

fn judge(request: &Request, print: &mut impl FnMut(&str)) -> Result<(), String> {
    let (mut pooled, mut by_kind, mut left_out) = (Scores::new(), Scores::new(), LeftOut::default());
    let (mut table3, mut caps) = (table3::Table::default(), caps::Table::default());
    for cell in request.cells() {
        let across = cell.lone || request.only == Some(Only::Across);
        let how: &[&str] = match request.only {
            _ if across => &["--across"],
            Some(Only::Rested) => &["--rested"],
            _ => &[],
        };
        // Connections of half a megabyte come and go: who is compared with whom is chance.
        if across && cell.app == App::Short {
            continue;
        }
        let Some((labels, verdicts)) = replayed_as(&request.folder, &cell, how)? else {
            left_out.not_run.push(cell.to_string());
            continue;
        };
        if let Some(flaw) = labels.flaw() {
            left_out.invalid.push(format!("{cell} ({flaw})"));
            continue;
        }
        if !across {
            table3.add(&labels, &verdicts);
            caps.add(&labels, &verdicts);
            if labels.cell.layout == cell::Layout::TwoRates {
                continue;
            }
        }
        let scores = score::score(&labels, &verdicts);
        for (method, score) in &scores {
            *by_kind.entry(cell.kind()).or_default().entry(method.clone()).or_default() += score;
        }
        pooled.insert(cell.to_string(), scores);
    }
    print(&text(&pooled, &by_kind, &left_out));
    if request.only == Some(Only::Across) {
        return Ok(());
    }
    print(&format!("\n## Shared caps\n\n{}", caps.markdown()));
    if request.grids.contains(&Grid::Table3) {
        print(&format!("\n## Table III\n\n{}", table3.markdown()));
    }
    Ok(())
}

fn text(pooled: &Scores, by_kind: &Scores, left_out: &LeftOut) -> String {
    let mut text = format!("{} cells.\n", pooled.len());
    for (why, cells) in [
        ("Not run (not reached, or faster than this machine can emulate)", &left_out.not_run),
        ("Left out, because the machine and not their queues was the bottleneck", &left_out.invalid),
    ] {
        if !cells.is_empty() {
            let _ = writeln!(text, "{why} ({}): {}.", cells.len(), cells.join(", "));
        }
    }
    if !pooled.is_empty() {
        let _ = write!(text, "\n## Pooled\n\n{}", tables::pooled(pooled));
        let _ = write!(text, "\n## By cell, `{}` at 3 s\n\n{}", tables::OURS, tables::by_cell(by_kind));
    }
    text
}

/// Weights from the cells for training alone.
fn fit(request: &Request) -> Result<String, String> {
    let mut rows = Vec::new();
    for cell in request.cells().into_iter().filter(|cell| cell.set == Set::Training) {
        let Some((labels, verdicts)) = replayed(&request.folder, &cell)? else { continue };
        if labels.flaw().is_none() {
            rows.push(score::examples(&labels, &verdicts, tables::OURS));
        }
    }
    Ok(fit::fit(&rows).text())
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
            assert!(parse(wrong).is_err(), "{wrong:?} was taken");
        }
    }
}
