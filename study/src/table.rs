// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a study as text and CSV.

use std::fmt::Write as _;

use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::statistics::Shift;
use mpwatch_report::csv;
use mpwatch_report::text::grid::{Align, Grid};

use crate::data::quantity::Quantity;
use crate::data::{CellResults, ExperimentResults, Measured, PublishedValue, Reported, Study};

/// The study as text of at most `width` characters per line. Each experiment has a comparison with the paper and a table.
pub(crate) fn text(study: &Study, width: usize) -> String {
    let mut text = String::new();
    for experiment in &study.experiments {
        let about = &experiment.description;
        let _ = writeln!(text, "{}: {} [{}]", about.name, about.title, about.paper);
        if !about.question.is_empty() {
            let _ = writeln!(text, "  {}", about.question);
        }
        for (_, sentence) in verdicts(experiment) {
            let _ = writeln!(text, "  {sentence}");
        }
        text.push('\n');
        text.push_str(&table(experiment).text_within("  ", width));
        for failure in experiment.cells.iter().flat_map(|cell| &cell.failures) {
            let _ = writeln!(text, "  failed: {failure}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{}", energy_note(study));
    text
}

/// A sentence on the source of the energy figures.
pub(crate) fn energy_note(study: &Study) -> String {
    let sources = study.experiments.iter().flat_map(|experiment| &experiment.cells).map(|cell| cell.energy);
    match sources.filter(|source| *source != EnergySource::Absent).max() {
        None => "No run has energy figures.".to_owned(),
        Some(EnergySource::Simulated) => {
            "Energy is simulated (source `simulated`): this machine has no energy counters. The joules follow the CPU time of both ends by \
             a fixed power law, so only their ratios are meaningful."
                .to_owned()
        }
        Some(source) if source.is_measured() => format!("Energy is measured (source `{}`).", source.as_str()),
        Some(source) => format!("Energy is an estimate (source `{}`).", source.as_str()),
    }
}

/// A table with a row for each cell and quantity.
pub(crate) fn table(experiment: &ExperimentResults) -> Grid {
    let columns = vec![
        ("cell", Align::Left),
        ("quantity", Align::Left),
        ("runs", Align::Right),
        ("mean", Align::Right),
        ("95 % interval", Align::Right),
        ("change", Align::Right),
        ("paper", Align::Left),
    ];
    let of_cell = |cell: &CellResults| -> Vec<Vec<String>> {
        let name = name(cell);
        cell.measured.iter().map(|measured| row(&name, cell, measured)).collect()
    };
    Grid { columns, rows: experiment.cells.iter().flat_map(of_cell).collect() }
}

/// The factors of a cell, such as `paths 2, rate 20`.
pub(crate) fn name(cell: &CellResults) -> String {
    let words: Vec<String> =
        cell.factors.iter().map(|factor| format!("{} {}", factor.name, factor.value)).collect();
    words.join(", ")
}

fn row(name: &str, cell: &CellResults, measured: &Measured) -> Vec<String> {
    let Measured { quantity, values, mean, interval, change, published, repetitions: _ } = measured;
    let mark = if quantity.is_energy() { cell.energy.mark() } else { "" };
    let interval =
        interval.map(|(low, high)| format!("{} to {}", quantity.display(low), quantity.display(high)));
    let papers: Vec<String> = published.iter().map(|reported| paper(*quantity, reported)).collect();
    vec![
        name.to_owned(),
        quantity.title().to_owned(),
        values.len().to_string(),
        format!("{mark}{}", quantity.display(*mean)),
        interval.unwrap_or_else(|| "-".to_owned()),
        change.map_or_else(|| "-".to_owned(), change_text),
        papers.join("; "),
    ]
}

/// If the interval of a change contains 0 and its upper end exceeds this factor (1000 %), "unclear" replaces the change.
const MAX_CHANGE: f64 = 10.0;

/// A change with its interval, such as `+6.4 % (+5.0 to +7.9)`.
fn change_text(change: Shift) -> String {
    if change.high > MAX_CHANGE && !change.is_shown() {
        return "unclear".to_owned();
    }
    let percent = |value: f64| value * 100.0;
    format!(
        "{:+.1} % ({:+.1} to {:+.1})",
        percent(change.estimate),
        percent(change.low),
        percent(change.high)
    )
}

/// The paper's value with its machine or network, such as `+6.4 % (i7-3770)`.
fn paper(quantity: Quantity, reported: &Reported) -> String {
    let value = match reported.value {
        PublishedValue::Absolute(value) => quantity.display(value),
        PublishedValue::Change(change) => format!("{:+.1} %", change * 100.0),
    };
    format!("{value} ({})", reported.setup)
}

/// Whether the measured change confirms the paper's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// The interval is on the paper's side of 0, and the change is half to twice the paper's; or the paper has no change, and the measured
    /// change is within 5 % and its interval within 25 %.
    Agrees,
    /// The interval is on the paper's side of 0, but the change is smaller than half or larger than twice the paper's.
    OtherSize,
    /// The interval is on the other side of 0; or it excludes 0, and the paper has no change.
    Differs,
    /// There are too few runs, or the interval is too wide.
    Undecided,
}

/// Maximum size of a change that counts as no change (5 %).
const NO_CHANGE: f64 = 0.05;
/// Maximum distance of the interval's ends from 0 that confirms "no change" (25 %).
const MAX_OF_NO_CHANGE: f64 = 0.25;

impl Agreement {
    /// Compares a measured change with the paper's. `None`: the paper reports an absolute value.
    pub(crate) fn new(measured: &Measured, published: &Reported) -> Option<Self> {
        let PublishedValue::Change(paper) = published.value else { return None };
        let Some(change) = measured.change else { return Some(Self::Undecided) };
        let is_no_change = change.estimate.abs() <= NO_CHANGE;
        let is_narrow = change.low.abs().max(change.high.abs()) <= MAX_OF_NO_CHANGE;
        Some(match (paper.abs() <= NO_CHANGE, change.is_shown()) {
            (true, _) if is_no_change && is_narrow => Self::Agrees,
            (_, false) => Self::Undecided,
            (false, true) if (0.5..=2.0).contains(&(change.estimate / paper)) => Self::Agrees,
            (false, true) if (change.estimate > 0.0) == (paper > 0.0) => Self::OtherSize,
            (_, true) => Self::Differs,
        })
    }
}

/// Sentences that compare the measured changes with the paper's.
pub(crate) fn verdicts(experiment: &ExperimentResults) -> Vec<(Agreement, String)> {
    let mut found = Vec::new();
    for cell in &experiment.cells {
        for measured in &cell.measured {
            for published in &measured.published {
                let Some(agreement) = Agreement::new(measured, published) else { continue };
                found.push((agreement, sentence(cell, measured, published, agreement)));
            }
        }
    }
    found
}

fn sentence(cell: &CellResults, measured: &Measured, published: &Reported, agreement: Agreement) -> String {
    let word = match agreement {
        Agreement::Agrees => "agrees",
        Agreement::OtherSize => "same direction, other size",
        Agreement::Differs => "differs",
        Agreement::Undecided => "not shown",
    };
    let found = measured.change.map_or_else(|| "too few runs".to_owned(), change_text);
    format!(
        "{}, {}: measured {found}, paper {}: {word}",
        name(cell),
        measured.quantity.title(),
        paper(measured.quantity, published)
    )
}

/// The study as CSV, with a row for each value of a run.
///
/// # Errors
/// If memory is short.
pub(crate) fn csv(study: &Study) -> Result<String, ::csv::Error> {
    let columns =
        ["experiment", "cell", "run", "quantity", "value", "energy_source"].map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    for experiment in &study.experiments {
        for cell in &experiment.cells {
            for measured in &cell.measured {
                for (run, value) in measured.repetitions.iter().zip(&measured.values) {
                    let source = if measured.quantity.is_energy() { cell.energy.as_str() } else { "" };
                    rows.push(vec![
                        experiment.description.name.clone().into(),
                        crate::data::key(&cell.factors).into(),
                        (*run).into(),
                        measured.quantity.name().into(),
                        (*value).into(),
                        source.into(),
                    ]);
                }
            }
        }
    }
    csv::table(&columns, &rows)
}
