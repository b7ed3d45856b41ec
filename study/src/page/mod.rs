// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a study as one HTML file: for each experiment the question, measured values compared with the paper's, plots and a table.

mod details;
mod labels;

use std::fmt::Write as _;

use mpwatch_model::host::energy::EnergySource;
use mpwatch_report::html::axis::Axis;
use mpwatch_report::html::bars::{Bar, Bars};
use mpwatch_report::html::markup::{escape, facts, list, table};
use mpwatch_report::html::page::frame;
use mpwatch_report::html::plot::{Curve, Plot};
use mpwatch_report::text::words::capital;

use crate::data::quantity::Quantity;
use crate::data::{CellResults, ExperimentResults, Origin, Plot as Wanted, Study};
use crate::table::{Agreement, energy_note, table as table_of, verdicts};
use labels::{bar_name, factor_title, unit_of, value_axis, with_unit};

/// The study as an HTML page.
pub(crate) fn study(study: &Study) -> String {
    let title = format!("mpwatch study of {}", study.origin.host.name);
    let mut text = frame(&title, &title);
    let _ = write!(
        text,
        "<p>{}</p>\n<div class=\"origin\">\n{}</div>\n",
        escape(&energy_note(study)),
        origin(study)
    );
    for experiment in &study.experiments {
        text.push_str(&section(study, experiment));
    }
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

fn origin(study: &Study) -> String {
    let Origin { host, server, cpu, cpus, seed, quick, .. } = &study.origin;
    let period = study.from.zip(study.to).map(|(from, to)| {
        format!("{} to {} UTC", from.strftime("%Y-%m-%d %H:%M"), to.strftime("%Y-%m-%d %H:%M"))
    });
    // With two machines, the client's kernel comes first.
    let kernel = server.as_ref().map_or_else(
        || host.kernel.clone(),
        |server| format!("client {}: {}, server {}: {}", host.name, host.kernel, server.name, server.kernel),
    );
    let scale = if *quick { "quick: fewer cells, smaller transfers" } else { "full" };
    facts(&[
        ("Kernel", kernel),
        ("CPU", format!("{cpus} x {}", if cpu.is_empty() { "unknown" } else { cpu })),
        ("mpwatch", host.mpwatch.clone()),
        ("Scale", scale.to_owned()),
        ("Seed", seed.to_string()),
        ("Time", period.unwrap_or_default()),
    ])
}

fn section(study: &Study, experiment: &ExperimentResults) -> String {
    let about = &experiment.description;
    let compared = verdicts(experiment).into_iter().fold(String::new(), |mut text, (agreement, sentence)| {
        let class = match agreement {
            Agreement::Agrees => "better",
            Agreement::Differs => "worse",
            Agreement::Undecided | Agreement::OtherSize => "undecided",
        };
        let _ = writeln!(text, "<li class=\"{class}\">{}</li>", escape(&sentence));
        text
    });
    let plots: String = about.plots.iter().map(|wanted| plot(study, experiment, wanted)).collect();
    let details: String =
        about.detail_plots.iter().map(|wanted| details::plots(experiment, wanted)).collect();
    let failures: Vec<String> = experiment.cells.iter().flat_map(|cell| cell.failures.clone()).collect();
    format!(
        "<section>\n<h2>{}: {}</h2>\n<p><strong>{}</strong> {} [{}]</p>\n<ul class=\"verdicts\">\n{compared}</ul>\n\
         <div class=\"plots\">{plots}{details}</div>\n{}{}</section>\n",
        escape(&about.name),
        escape(&about.title),
        escape(&about.question),
        escape(&about.method),
        escape(&about.paper),
        list("problems", &failures),
        table(&table_of(experiment))
    )
}

/// The cells of a curve, each with its position on the horizontal axis.
type CurveCells<'a> = Vec<(f64, &'a CellResults)>;

/// A plot of a quantity over a factor: curves if the factor has several values that are all numbers, otherwise bars.
fn plot(study: &Study, experiment: &ExperimentResults, wanted: &Wanted) -> String {
    let is_number = |value: &&str| value.parse::<f64>().is_ok();
    let values = experiment.values_of(&wanted.over);
    if values.len() > 1 && values.iter().all(is_number) {
        curves(study, experiment, wanted)
    } else {
        bars(study, experiment, wanted)
    }
}

/// A plot with a bar for each cell and a mark at the paper's value.
fn bars(study: &Study, experiment: &ExperimentResults, wanted: &Wanted) -> String {
    let quantity = wanted.quantity;
    let bar = |cell: &CellResults| {
        let measured = cell.measured(quantity)?;
        let paper = measured.published.first();
        Some(Bar {
            name: bar_name(experiment, cell, &wanted.over),
            value: measured.mean,
            interval: measured.interval,
            count: measured.values.len(),
            published: paper.and_then(|paper| experiment.absolute(cell, quantity, paper.value)),
        })
    };
    let rows: Vec<Bar> = experiment.cells.iter().filter_map(bar).collect();
    let line = if rows.iter().any(|row| row.published.is_some()) { "; thick line: the paper" } else { "" };
    let bars = Bars {
        file: format!("{}-{}", experiment.description.name, quantity.name()),
        caption: format!(
            "{}: {} by {}{}: mean and 95 % interval, number of runs{line}",
            capital(&experiment.description.name),
            quantity.title(),
            factor_title(&wanted.over),
            energy_mark(study, experiment, quantity)
        ),
        axis: quantity_axis(quantity, rows.iter().map(|row| (row.value, row.interval))),
        groups_are: "cell",
        counted: "runs",
        rows,
    };
    bars.html()
}

fn quantity_axis(
    quantity: Quantity,
    values: impl Iterator<Item = (f64, Option<(f64, f64)>)>,
) -> Axis<'static> {
    value_axis(quantity.title(), quantity.unit(), quantity.name(), values)
}

/// The source of energy figures in a caption: the least reliable source of all cells. Empty: the quantity is not energy, or no cell has energy.
fn energy_mark(study: &Study, experiment: &ExperimentResults, quantity: Quantity) -> String {
    let known =
        experiment.cells.iter().map(|cell| cell.energy).filter(|source| *source != EnergySource::Absent);
    match known.max().filter(|_| quantity.is_energy()) {
        None => String::new(),
        Some(_) if study.origin.simulated_energy => " (energy is simulated)".to_owned(),
        Some(EnergySource::Model) => " (energy is estimated by a model)".to_owned(),
        Some(source) => format!(" (energy: {})", source.as_str()),
    }
}

/// A plot with a curve for each combination of the other factors, and curves for the paper's values.
fn curves(study: &Study, experiment: &ExperimentResults, wanted: &Wanted) -> String {
    let quantity = wanted.quantity;
    let mut groups: Vec<(String, CurveCells<'_>)> = Vec::new();
    for cell in &experiment.cells {
        let Some(x) = cell.factor(&wanted.over).and_then(|value| value.parse().ok()) else { continue };
        let name = curve_name(cell, &wanted.over);
        match groups.iter_mut().find(|(found, _)| *found == name) {
            Some((_, cells)) => cells.push((x, cell)),
            None => groups.push((name, vec![(x, cell)])),
        }
    }
    let curves = groups.iter().map(|(name, cells)| measured_curve(name, cells, quantity));
    let of_one = groups.len() == 1;
    let papers = groups.iter().flat_map(|(name, cells)| {
        let name = if of_one { "" } else { name };
        paper_curves(experiment, name, cells, quantity)
    });
    let note = energy_mark(study, experiment, quantity);
    let curves: Vec<Curve> = curves.chain(papers).collect();
    let plot = Plot {
        file: format!("{}-{}", experiment.description.name, quantity.name()),
        caption: format!(
            "{}: {} by {}{note}: mean and 95 % interval",
            capital(&experiment.description.name),
            quantity.title(),
            factor_title(&wanted.over)
        ),
        x: Axis {
            title: factor_title(&wanted.over),
            unit: unit_of(&wanted.over),
            column: &wanted.over,
            log: wanted.log,
        },
        y: quantity_axis(
            quantity,
            curves.iter().flat_map(Curve::with_intervals).map(|((_, y), interval)| (y, interval)),
        ),
        curves_are: "cell",
        curves,
        x_to: 0.0,
    };
    plot.html()
}

fn measured_curve(name: &str, cells: &CurveCells<'_>, quantity: Quantity) -> Curve {
    let known: Vec<_> = cells.iter().filter_map(|(x, cell)| Some((*x, cell.measured(quantity)?))).collect();
    Curve {
        name: if name.is_empty() { "measured".to_owned() } else { name.to_owned() },
        points: known.iter().map(|(x, measured)| (*x, measured.mean)).collect(),
        steps: false,
        intervals: known.iter().map(|(_, measured)| measured.interval).collect(),
        paper: false,
    }
}

/// The paper's values for these cells, with a curve for each machine or network of the paper. `of`: the name of the measured curve.
fn paper_curves(
    experiment: &ExperimentResults,
    of: &str,
    cells: &CurveCells<'_>,
    quantity: Quantity,
) -> Vec<Curve> {
    let of = if of.is_empty() { String::new() } else { format!(" ({of})") };
    let mut curves: Vec<Curve> = Vec::new();
    for (x, cell) in cells {
        for published in cell.measured(quantity).map_or(&[][..], |measured| &measured.published) {
            let Some(value) = experiment.absolute(cell, quantity, published.value) else { continue };
            let name = format!("paper{of}: {}", published.setup);
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => {
                    curve.points.push((*x, value));
                    curve.intervals.push(None);
                }
                None => curves.push(Curve {
                    name,
                    points: vec![(*x, value)],
                    steps: false,
                    intervals: vec![None],
                    paper: true,
                }),
            }
        }
    }
    curves
}

/// The factors of a cell without the factor of the horizontal axis.
fn curve_name(cell: &CellResults, over: &str) -> String {
    let others = cell.factors.iter().filter(|factor| factor.name != over);
    others.map(with_unit).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::data::Description;

    use super::*;

    #[test]
    fn a_caption_of_energy_names_the_source_also_if_a_cell_failed() {
        let cell = |energy| CellResults {
            factors: Vec::new(),
            runs: 1,
            failures: Vec::new(),
            energy,
            measured: Vec::new(),
            details: Vec::new(),
        };
        let mark = |cells: Vec<CellResults>, simulated_energy| {
            let study = Study {
                schema: 1,
                origin: Origin { simulated_energy, ..Origin::default() },
                from: None,
                to: None,
                experiments: Vec::new(),
            };
            let experiment = ExperimentResults { description: Description::default(), cells };
            energy_mark(&study, &experiment, Quantity::Power)
        };
        let failed = || cell(EnergySource::Absent);
        let simulated = mark(vec![cell(EnergySource::Simulated), failed()], true);
        assert_eq!(simulated, " (energy is simulated)");
        assert_eq!(mark(vec![cell(EnergySource::Model)], false), " (energy is estimated by a model)");
        assert_eq!(mark(vec![failed()], false), "");
    }
}
