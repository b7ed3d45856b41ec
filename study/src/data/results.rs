// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of a study: what experiments are about, records of runs, and results.

use jiff::Timestamp;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::host::machine::Host;
use mpwatch_model::statistics::Shift;
use serde::{Deserialize, Serialize};

use super::detail::{Detail, Shape};
use super::quantity::Quantity;

/// The format of [`Study`] as JSON.
pub(crate) const SCHEMA: u32 = 1;

/// The subject of an experiment, and its plots.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Description {
    /// Name on the command line.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// Key of the paper (docs/study.md lists them). `own`: a user's experiment, not from a paper.
    pub(crate) paper: String,
    /// The question that it answers.
    pub(crate) question: String,
    /// The network and traffic here, and the differences from the paper.
    pub(crate) method: String,
    /// The measured quantities, in the order of tables.
    pub(crate) quantities: Vec<Quantity>,
    /// Values of factors in the baseline: each cell is compared with the cell that has these values and otherwise its own. Empty: no comparison.
    pub(crate) baseline: Vec<Factor>,
    /// Plots of quantities.
    #[serde(skip)]
    pub(crate) plots: Vec<Plot>,
    /// Plots of single values.
    #[serde(skip)]
    pub(crate) detail_plots: Vec<DetailPlot>,
    /// The values that the paper reports.
    #[serde(skip)]
    pub(crate) published: Vec<Published>,
}

/// A quantity over a factor.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The vertical axis.
    pub(crate) quantity: Quantity,
    /// The factor of the horizontal axis.
    pub(crate) over: String,
    /// Whether the horizontal axis is logarithmic.
    pub(crate) log: bool,
}

impl Plot {
    /// A plot with linear axes.
    pub(crate) fn new(quantity: Quantity, over: &str) -> Self {
        Self { quantity, over: over.to_owned(), log: false }
    }

    /// The same plot with a logarithmic horizontal axis.
    pub(crate) fn logarithmic(self) -> Self {
        Self { log: true, ..self }
    }
}

/// Single values of the runs of some cells.
#[derive(Clone, Debug)]
pub(crate) struct DetailPlot {
    /// The kind of plot.
    pub(crate) shape: Shape,
    /// The factors that its cells have in common. Empty: all cells.
    pub(crate) cells: Vec<Factor>,
}

impl DetailPlot {
    /// A plot of the cells with these factors.
    pub(crate) fn new(shape: Shape, cells: &[(&str, &str)]) -> Self {
        Self { shape, cells: factors(cells) }
    }
}

/// A value that a paper reports for a cell.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// The cell, by the factors that identify it.
    pub(crate) cell: Vec<Factor>,
    /// The quantity.
    pub(crate) quantity: Quantity,
    /// The value.
    pub(crate) value: PublishedValue,
    /// The machine or network of the paper.
    pub(crate) setup: String,
}

impl Published {
    /// A value for the cells with these factors.
    pub(crate) fn new(cell: &[(&str, &str)], quantity: Quantity, value: PublishedValue, setup: &str) -> Self {
        Self { cell: factors(cell), quantity, value, setup: setup.to_owned() }
    }
}

/// A value of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PublishedValue {
    /// In the unit of the quantity.
    Absolute(f64),
    /// Relative to the baseline: 0.1 is 10 % more.
    Change(f64),
}

/// A setting that an experiment varies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Factor {
    /// Its name, for example `paths`.
    pub(crate) name: String,
    /// Its value, for example `3`.
    pub(crate) value: String,
}

impl Factor {
    /// A factor with a value.
    pub(crate) fn new(name: &str, value: &impl ToString) -> Self {
        Self { name: name.to_owned(), value: value.to_string() }
    }
}

/// Factors from pairs of name and value.
pub(crate) fn factors(pairs: &[(&str, &str)]) -> Vec<Factor> {
    pairs.iter().map(|(name, value)| Factor::new(name, value)).collect()
}

/// Identifies a cell within its experiment: `paths=3 transport=mptcp`.
pub(crate) fn key(factors: &[Factor]) -> String {
    let words: Vec<String> =
        factors.iter().map(|factor| format!("{}={}", factor.name, factor.value)).collect();
    words.join(" ")
}

/// The values that one run measured, or why it failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunRecord {
    /// Name of the experiment.
    pub(crate) experiment: String,
    /// The cell.
    pub(crate) factors: Vec<Factor>,
    /// From 0.
    pub(crate) repetition: u32,
    /// Seed of its random numbers.
    pub(crate) seed: u64,
    /// When it began.
    pub(crate) began: Timestamp,
    /// Its duration, including the time to build and remove the network.
    pub(crate) took_s: f64,
    /// Source of its joules.
    pub(crate) energy: EnergySource,
    /// Measured values. Empty: it failed.
    pub(crate) values: Vec<(Quantity, f64)>,
    /// Single values, for plots.
    pub(crate) details: Vec<Detail>,
    /// Why it failed.
    pub(crate) error: Option<String>,
}

/// Where and how a study is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The machine; of two machines, the client.
    pub(crate) host: Host,
    /// The machine of the server. `null`: both ends are on one machine.
    #[serde(default)]
    pub(crate) server: Option<Host>,
    /// Model name of its CPU. Empty: unknown.
    pub(crate) cpu: String,
    /// Number of its CPUs.
    pub(crate) cpus: u32,
    /// Seed of the study.
    pub(crate) seed: u64,
    /// Whether sizes and times were reduced (`--quick`).
    pub(crate) quick: bool,
    /// Whether the joules are simulated.
    pub(crate) simulated_energy: bool,
}

/// The results of a study.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Study {
    /// Version of this format.
    pub(crate) schema: u32,
    /// Where and how it was run.
    pub(crate) origin: Origin,
    /// Start of the first run.
    pub(crate) from: Option<Timestamp>,
    /// End of the last run.
    pub(crate) to: Option<Timestamp>,
    /// Its experiments.
    pub(crate) experiments: Vec<ExperimentResults>,
}

/// The results of an experiment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ExperimentResults {
    /// Its description.
    #[serde(flatten)]
    pub(crate) description: Description,
    /// Its cells, in the order of the definition.
    pub(crate) cells: Vec<CellResults>,
}

/// The results of all runs of a cell.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CellResults {
    /// Identifies the cell.
    pub(crate) factors: Vec<Factor>,
    /// Runs that succeeded.
    pub(crate) runs: u32,
    /// Why the others failed.
    pub(crate) failures: Vec<String>,
    /// Source of the joules; the least reliable of all runs. `absent`: no run has joules.
    pub(crate) energy: EnergySource,
    /// One entry per measured quantity.
    pub(crate) measured: Vec<Measured>,
    /// The single values of each run that succeeded. Not in JSON: `study.db` has them.
    #[serde(skip)]
    pub(crate) details: Vec<Vec<Detail>>,
}

/// A quantity over all runs of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// The quantity.
    pub(crate) quantity: Quantity,
    /// The value of each run that measured it.
    pub(crate) values: Vec<f64>,
    /// The run of each of these values, from 0.
    pub(crate) repetitions: Vec<u32>,
    /// Their mean.
    pub(crate) mean: f64,
    /// The 95 % confidence interval of the mean, within the range of the quantity. `null`: fewer than two runs.
    pub(crate) interval: Option<(f64, f64)>,
    /// Relative change from the baseline (0.1: 10 % more). `null`: this cell is the baseline, or there are too few runs.
    pub(crate) change: Option<Shift>,
    /// The values that the paper reports.
    pub(crate) published: Vec<Reported>,
}

/// A value of the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Reported {
    /// The value.
    #[serde(flatten)]
    pub(crate) value: PublishedValue,
    /// The machine or network of the paper.
    pub(crate) setup: String,
}

impl CellResults {
    /// The value of a factor. `None`: the cell does not have it.
    pub(crate) fn factor(&self, name: &str) -> Option<&str> {
        self.factors.iter().find(|factor| factor.name == name).map(|factor| factor.value.as_str())
    }

    /// The values of a quantity. `None`: it was not measured.
    pub(crate) fn measured(&self, quantity: Quantity) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.quantity == quantity)
    }
}
