// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of the single values of the runs of a study: distributions over connections, and rates over time.

use mpwatch_model::metric::{Unit, count};
use mpwatch_report::html::axis::Axis;
use mpwatch_report::html::distributions::distribution;
use mpwatch_report::html::plot::{Curve, Plot};
use mpwatch_report::text::words::capital;

use super::labels::{cell_name, value_axis};
use crate::data::detail::{Detail, Series, Shape};
use crate::data::{CellResults, DetailPlot, ExperimentResults};

const TIME: Axis = Axis { title: "time since the start", unit: Unit::Seconds, column: "time_s", log: false };
const SHARE: Axis = Axis { title: "share of flows", unit: Unit::Ratio, column: "share", log: false };
const RATE: Axis = Axis { title: "rate", unit: Unit::BitsPerSecond, column: "rate_bps", log: false };

/// A plot of single values of an experiment as HTML. Empty: the runs have no such values.
pub(super) fn plots(experiment: &ExperimentResults, wanted: &DetailPlot) -> String {
    let is_wanted = |cell: &&CellResults| wanted.cells.iter().all(|factor| cell.factors.contains(factor));
    let cells = experiment.cells.iter().filter(is_wanted);
    match wanted.shape {
        Shape::Distribution(series) => of_cells(experiment, series, cells),
        Shape::RatesOverTime => cells.map(|cell| rates(experiment, cell)).collect(),
    }
}

/// A plot of distributions, with a curve for each cell.
fn of_cells<'a>(
    experiment: &ExperimentResults,
    series: Series,
    cells: impl Iterator<Item = &'a CellResults>,
) -> String {
    let curve = |cell: &CellResults| {
        let mut values: Vec<f64> = cell
            .details
            .iter()
            .flatten()
            .filter(|detail| detail.series == series)
            .map(|detail| detail.value)
            .collect();
        values.sort_by(f64::total_cmp);
        distribution(format!("{} ({})", cell_name(experiment, cell), values.len()), &values)
    };
    let curves: Vec<Curve> = cells.filter_map(curve).collect();
    let values = curves.iter().flat_map(|curve| &curve.points).map(|(value, _)| (*value, None));
    let (title, unit) = (series.title(), series.unit());
    let plot = Plot {
        file: format!("{}-distribution-{}", experiment.description.name, series.as_str()),
        caption: format!(
            "{}: distribution of the {title}: share of flows with at most this value (number of flows, all runs)",
            capital(&experiment.description.name)
        ),
        x: Axis { title, unit, column: series.as_str(), log: value_axis(title, unit, "", values).log },
        y: SHARE,
        curves_are: "cell",
        curves,
        x_to: 0.0,
    };
    plot.html()
}

/// A plot of the rates of both subflows over time, in the first run of a cell that has rates.
fn rates(experiment: &ExperimentResults, cell: &CellResults) -> String {
    let has_rates = |run: &&Vec<Detail>| run.iter().any(|detail| detail.series == Series::FirstSubflow);
    let Some(run) = cell.details.iter().find(has_rates) else { return String::new() };
    let name = cell_name(experiment, cell);
    let curve = |series: Series| {
        let details = run.iter().filter(|detail| detail.series == series);
        Curve {
            name: series.title().to_owned(),
            points: details.filter_map(|detail| Some((detail.at_s?, detail.value))).collect(),
            steps: false,
            intervals: Vec::new(),
            paper: false,
        }
    };
    let experiment = &experiment.description.name;
    let plot = Plot {
        file: format!("{experiment}-rates-{}", name.replace(", ", "-").replace(' ', "-")),
        caption: format!(
            "{}, {name}: rates of the first two subflows over time in one of {}",
            capital(experiment),
            count(cell.details.len(), "run")
        ),
        x: TIME,
        y: RATE,
        curves_are: "subflow",
        curves: [Series::FirstSubflow, Series::SecondSubflow].map(curve).into(),
        x_to: 0.0,
    };
    plot.html()
}

#[cfg(test)]
mod tests {
    use crate::data::{Description, Factor};
    use mpwatch_model::host::energy::EnergySource;

    use super::*;

    fn experiment(details: Vec<Vec<Detail>>) -> ExperimentResults {
        let cell = |links: u32, details: Vec<Vec<Detail>>| CellResults {
            factors: vec![Factor::new("links", &links)],
            runs: 2,
            failures: Vec::new(),
            energy: EnergySource::Absent,
            measured: Vec::new(),
            details,
        };
        let description = Description { name: "sharing".to_owned(), ..Description::default() };
        ExperimentResults { description, cells: vec![cell(1, details), cell(2, Vec::new())] }
    }

    #[test]
    fn a_distribution_has_the_values_of_all_runs_of_the_wanted_cells() {
        let time = |value| Detail { series: Series::CompletionTimes, at_s: None, value };
        let experiment = experiment(vec![vec![time(1.0), time(3.0)], vec![time(2.0), time(4.0), time(5.0)]]);
        let wanted = |links: u32| DetailPlot {
            shape: Shape::Distribution(Series::CompletionTimes),
            cells: vec![Factor::new("links", &links)],
        };
        let text = plots(&experiment, &wanted(1));
        assert!(
            text.contains("links 1 (5)") && text.contains("sharing-distribution-completion_s.csv"),
            "{text}"
        );
        assert_eq!(plots(&experiment, &wanted(2)), "", "no values");
    }

    #[test]
    fn rates_over_time_come_from_the_first_run() {
        let rate = |series, at_s, value| Detail { series, at_s: Some(at_s), value };
        let first = vec![rate(Series::FirstSubflow, 0.1, 1e6), rate(Series::SecondSubflow, 0.1, 2e6)];
        let experiment = experiment(vec![first, vec![rate(Series::FirstSubflow, 0.1, 7e6)]]);
        let text = plots(&experiment, &DetailPlot { shape: Shape::RatesOverTime, cells: Vec::new() });
        assert_eq!(text.matches("<figure").count(), 1, "the second cell has no runs");
        assert!(
            text.contains("first%20subflow,0.1,1000000") || text.contains("first subflow,0.1,1000000"),
            "{text}"
        );
        assert!(!text.contains("7000000"), "{text}");
    }
}
