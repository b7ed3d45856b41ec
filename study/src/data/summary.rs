// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the results of the cells of an experiment from its runs.

use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::statistics::{Shift, mean, mean_interval, relative_change};

use super::quantity::Quantity;
use super::results::{
    CellResults, Description, ExperimentResults, Factor, Measured, Published, PublishedValue, Reported,
    RunRecord, key,
};

impl ExperimentResults {
    /// The results of `cells`, in this order, including cells without runs.
    pub(crate) fn from_runs(description: &Description, cells: &[Vec<Factor>], runs: &[RunRecord]) -> Self {
        let of_cell = |factors: &Vec<Factor>| CellResults::from_runs(description, factors, runs);
        Self { description: description.clone(), cells: cells.iter().map(of_cell).collect() }
    }

    /// The paper's value in the unit of the quantity. A change is applied to the mean of the baseline. `None`: no baseline, or no value of it.
    pub(crate) fn absolute(
        &self,
        cell: &CellResults,
        quantity: Quantity,
        published: PublishedValue,
    ) -> Option<f64> {
        match published {
            PublishedValue::Absolute(value) => Some(value),
            PublishedValue::Change(change) => {
                let wanted = baseline(&self.description, &cell.factors)?;
                let compared = self.cells.iter().find(|cell| cell.factors == wanted)?;
                Some(compared.measured(quantity)?.mean * (1.0 + change))
            }
        }
    }

    /// The different values of a factor, in the order of the cells.
    pub(crate) fn values_of(&self, factor: &str) -> Vec<&str> {
        let mut values = Vec::new();
        for value in self.cells.iter().filter_map(|cell| cell.factor(factor)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

impl CellResults {
    fn from_runs(description: &Description, factors: &[Factor], runs: &[RunRecord]) -> Self {
        let own = || of_cell(runs, &description.name, factors);
        let baseline = baseline(description, factors);
        let measured = description.quantities.iter().filter_map(|&quantity| {
            let (repetitions, values): (Vec<u32>, Vec<f64>) = values_of(own(), quantity).into_iter().unzip();
            let compared = baseline.as_deref().map(|cell| of_cell(runs, &description.name, cell));
            let change = compared.and_then(|runs| {
                let compared: Vec<f64> =
                    values_of(runs, quantity).into_iter().map(|(_, value)| value).collect();
                relative_change(&compared, &values)
            });
            let published = published(description, factors, quantity);
            Measured::from_values(quantity, (repetitions, values), change, published)
        });
        let succeeded = || own().filter(|run| run.error.is_none());
        Self {
            runs: u32::try_from(succeeded().count()).unwrap_or(u32::MAX),
            failures: own().filter_map(|run| run.error.clone()).collect(),
            energy: succeeded().map(|run| run.energy).max().unwrap_or(EnergySource::Absent),
            measured: measured.collect(),
            details: succeeded().map(|run| run.details.clone()).collect(),
            factors: factors.to_vec(),
        }
    }
}

impl Measured {
    /// `None`: no run has a value.
    fn from_values(
        quantity: Quantity,
        (repetitions, values): (Vec<u32>, Vec<f64>),
        change: Option<Shift>,
        published: Vec<Reported>,
    ) -> Option<Self> {
        let mean = mean(&values)?;
        let (smallest, largest) = quantity.range();
        let within = |(low, high): (f64, f64)| (low.max(smallest), high.min(largest));
        let interval = mean_interval(&values).map(within);
        Some(Self { quantity, values, repetitions, mean, interval, change, published })
    }
}

fn of_cell<'a>(
    runs: &'a [RunRecord],
    experiment: &'a str,
    factors: &[Factor],
) -> impl Iterator<Item = &'a RunRecord> + use<'a> {
    let wanted = key(factors);
    runs.iter().filter(move |run| run.experiment == experiment && key(&run.factors) == wanted)
}

/// Repetition number and value of each run that has a value. Sorted, because the record of a repeated run is at the end of the file.
fn values_of<'a>(runs: impl Iterator<Item = &'a RunRecord>, quantity: Quantity) -> Vec<(u32, f64)> {
    let of_run = |run: &'a RunRecord| {
        let wanted = run.values.iter().filter(move |(found, value)| *found == quantity && value.is_finite());
        wanted.map(|(_, value)| (run.repetition, *value))
    };
    let mut values: Vec<(u32, f64)> = runs.flat_map(of_run).collect();
    values.sort_by_key(|(repetition, _)| *repetition);
    values
}

/// The factors of the cell with which a cell is compared. `None`: no comparison, or the cell is the baseline itself.
fn baseline(description: &Description, factors: &[Factor]) -> Option<Vec<Factor>> {
    let mut replaced = factors.to_vec();
    for factor in &mut replaced {
        if let Some(compared) = description.baseline.iter().find(|compared| compared.name == factor.name) {
            factor.value.clone_from(&compared.value);
        }
    }
    (replaced != factors).then_some(replaced)
}

fn published(description: &Description, factors: &[Factor], quantity: Quantity) -> Vec<Reported> {
    let is_of_cell = |published: &&Published| {
        published.quantity == quantity && published.cell.iter().all(|factor| factors.contains(factor))
    };
    let found = description.published.iter().filter(is_of_cell);
    found.map(|published| Reported { value: published.value, setup: published.setup.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::data::{SCHEMA, factors};

    fn description() -> Description {
        Description {
            name: "energy".to_owned(),
            quantities: vec![Quantity::Power, Quantity::Goodput],
            baseline: factors(&[("paths", "1")]),
            published: vec![Published::new(
                &[("paths", "2")],
                Quantity::Power,
                PublishedValue::Change(0.064),
                "i7-3770",
            )],
            ..Description::default()
        }
    }

    fn run(paths: u32, repetition: u32, power: f64) -> RunRecord {
        RunRecord {
            experiment: "energy".to_owned(),
            factors: vec![Factor::new("paths", &paths)],
            repetition,
            seed: 1,
            began: Timestamp::UNIX_EPOCH,
            took_s: 1.0,
            energy: EnergySource::Model,
            values: vec![(Quantity::Power, power)],
            details: Vec::new(),
            error: None,
        }
    }

    #[test]
    fn a_cell_has_its_mean_its_change_and_the_papers_value() {
        let mut runs: Vec<RunRecord> = [10.0, 10.1, 9.9].into_iter().map(|power| run(1, 0, power)).collect();
        runs.extend([12.0, 12.1, 11.9].into_iter().map(|power| run(2, 0, power)));
        runs.push(RunRecord { error: Some("no route".to_owned()), values: Vec::new(), ..run(2, 3, 0.0) });
        let cells = [1, 2, 3].map(|paths| vec![Factor::new("paths", &paths)]);
        let found = ExperimentResults::from_runs(&description(), &cells, &runs);
        assert_eq!(found.values_of("paths"), ["1", "2", "3"]);
        let [one, two, none] = &found.cells[..] else { panic!("three cells") };
        assert_eq!((one.runs, two.runs, none.runs), (3, 3, 0));
        assert_eq!(two.failures, ["no route"]);
        assert!(none.measured.is_empty());
        assert_eq!(one.measured(Quantity::Power).unwrap().change, None);
        assert_eq!(two.measured(Quantity::Goodput), None);
        let power = two.measured(Quantity::Power).unwrap();
        let change = power.change.unwrap();
        assert!((power.mean - 12.0).abs() < 1e-9);
        assert!(
            (change.estimate - 0.2).abs() < 0.001 && change.low > 0.17 && change.high < 0.23,
            "{change:?}"
        );
        assert_eq!(power.published[0].value, PublishedValue::Change(0.064));
        let paper = found.absolute(two, Quantity::Power, PublishedValue::Change(0.064)).unwrap();
        assert!((paper - 10.64).abs() < 1e-9, "{paper}");
        assert_eq!(found.absolute(one, Quantity::Power, PublishedValue::Change(0.1)), None);
        assert_eq!(SCHEMA, 1);
    }

    #[test]
    fn values_are_in_the_order_of_runs_and_keep_their_numbers() {
        let without = RunRecord { values: Vec::new(), ..run(1, 1, 0.0) };
        // Run 0 failed at first, and was repeated when the study was resumed.
        let failed =
            RunRecord { error: Some("interrupted".to_owned()), values: Vec::new(), ..run(1, 0, 0.0) };
        let runs = [failed, without, run(1, 2, 12.0), run(1, 0, 10.0)];
        let cells = [vec![Factor::new("paths", &1)]];
        let found = ExperimentResults::from_runs(&description(), &cells, &runs);
        let power = found.cells[0].measured(Quantity::Power).unwrap();
        assert_eq!((&power.repetitions[..], &power.values[..]), (&[0, 2][..], &[10.0, 12.0][..]));
    }
}
