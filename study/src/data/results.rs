// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of a study: descriptions of experiments, records of runs, and results.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::detail::{Detail, Shape};
use super::quantity::Quantity;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::host::machine::Host;
use mpwatch_model::statistics::Shift;

/// The format of [`Study`] as JSON.
pub(crate) const SCHEMA: u32 = 1;

/// What an experiment is about, and how to show it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Description {
    /// Name on the command line.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// Key of the paper (docs/study.md lists them). `own`: it is not from a paper.
    pub(crate) paper: String,
    /// What it answers.
    pub(crate) question: String,
    /// What is built and measured here, and where that differs from the paper.
    pub(crate) method: String,
    /// What is measured, in the order of tables.
    pub(crate) quantities: Vec<Quantity>,
    /// Factors whose values are replaced in a cell to get the cell that it is compared with. Empty: cells are not compared.
    pub(crate) baseline: Vec<Factor>,
    /// Its plots.
    #[serde(skip)]
    pub(crate) plots: Vec<Plot>,
    /// Its plots of single values.
    #[serde(skip)]
    pub(crate) detail_plots: Vec<DetailPlot>,
    /// What the paper reports.
    #[serde(skip)]
    pub(crate) published: Vec<Published>,
}

/// A quantity over a factor.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The vertical axis.
    pub(crate) quantity: Quantity,
    /// The factor of the horizontal axis; its values are numbers.
    pub(crate) over: String,
    /// Whether the horizontal axis is logarithmic.
    pub(crate) log: bool,
}

/// Single values of the runs of some cells.
#[derive(Clone, Debug)]
pub(crate) struct DetailPlot {
    /// What is drawn.
    pub(crate) shape: Shape,
    /// The factors that its cells have in common. Empty: all cells.
    pub(crate) cells: Vec<Factor>,
}

/// A value that a paper reports for a cell.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// The cell, by the factors that identify it.
    pub(crate) cell: Vec<Factor>,
    /// What was measured.
    pub(crate) quantity: Quantity,
    /// The value.
    pub(crate) value: PublishedValue,
    /// On which machine or network.
    pub(crate) setup: String,
}

/// A value of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PublishedValue {
    /// In the unit of the quantity.
    Absolute(f64),
    /// Relative to the cell that it is compared with: 0.1 is 10 % more.
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

/// `paths=3 transport=mptcp`: identifies a cell within its experiment.
pub(crate) fn key(factors: &[Factor]) -> String {
    let words: Vec<String> = factors.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
    words.join(" ")
}

/// What one run measured, or why it failed.
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
    /// How long it took, with building and removing its network.
    pub(crate) took_s: f64,
    /// Where its joules came from.
    pub(crate) energy: EnergySource,
    /// What was measured. Empty: it failed.
    pub(crate) values: Vec<(Quantity, f64)>,
    /// Single values, for plots.
    pub(crate) details: Vec<Detail>,
    /// Why it failed.
    pub(crate) error: Option<String>,
}

/// Which runs a study is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The machine; between two machines that of the client.
    pub(crate) host: Host,
    /// The machine of the server. `null`: both ends are on one.
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
    /// Whether the joules are those of a simulation.
    pub(crate) simulated_energy: bool,
}

/// The results of a study.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Study {
    /// Version of this format.
    pub(crate) schema: u32,
    /// Where and how it was run.
    pub(crate) origin: Origin,
    /// From the begin of the first run.
    pub(crate) from: Option<Timestamp>,
    /// To the end of the last run.
    pub(crate) to: Option<Timestamp>,
    /// Its experiments.
    pub(crate) experiments: Vec<Experiment>,
}

/// The results of an experiment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Experiment {
    /// What it is about.
    #[serde(flatten)]
    pub(crate) description: Description,
    /// Its cells, in the order of the definition.
    pub(crate) cells: Vec<Cell>,
}

/// The results of all runs of a cell.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    /// Identifies the cell.
    pub(crate) factors: Vec<Factor>,
    /// Runs that succeeded.
    pub(crate) runs: u32,
    /// Why the others failed.
    pub(crate) failures: Vec<String>,
    /// Where the joules of its runs came from; the least reliable of all runs. `absent`: no run has any.
    pub(crate) energy: EnergySource,
    /// A value for each quantity that was measured.
    pub(crate) measured: Vec<Measured>,
    /// The single values of each run that succeeded. Not in JSON: `study.db` has them.
    #[serde(skip)]
    pub(crate) details: Vec<Vec<Detail>>,
}

/// A quantity over all runs of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// What was measured.
    pub(crate) quantity: Quantity,
    /// One value for each run that has one.
    pub(crate) values: Vec<f64>,
    /// Which run each of these values is of, from 0.
    pub(crate) repetitions: Vec<u32>,
    /// Their mean.
    pub(crate) mean: f64,
    /// The 95 % confidence interval of the mean, within the range of the quantity. `null`: fewer than two runs.
    pub(crate) interval: Option<(f64, f64)>,
    /// From the cell that it is compared with to this one, relative (0.1: 10 % more). `null`: this is that cell, or too few runs.
    pub(crate) change: Option<Shift>,
    /// What the paper reports.
    pub(crate) published: Vec<Reported>,
}

/// A value of the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Reported {
    /// The value.
    #[serde(flatten)]
    pub(crate) value: PublishedValue,
    /// On which machine or network.
    pub(crate) setup: String,
}

impl Cell {
    /// The value of a factor. `None`: the cell does not have it.
    pub(crate) fn factor(&self, name: &str) -> Option<&str> {
        self.factors.iter().find(|factor| factor.name == name).map(|factor| factor.value.as_str())
    }

    /// What was measured. `None`: nothing.
    pub(crate) fn measured(&self, quantity: Quantity) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.quantity == quantity)
    }
}
