// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of a study: descriptions of experiments, records of runs, and results.

use jiff::Timestamp;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::host::machine::Host;
use mpwatch_model::statistics::Shift;
use serde::{Deserialize, Serialize};

use super::detail::{Detail, Shape};
use super::quantity::Quantity;

/// Version of the JSON format of [`Study`].
pub(crate) const SCHEMA: u32 = 1;

/// The description of an experiment, and its plots.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Description {
    /// Name on the command line.
    pub(crate) name: String,
    /// Title in one line.
    pub(crate) title: String,
    /// Key of the paper (docs/study.md lists them). `own`: a user's experiment, not from a paper.
    pub(crate) paper: String,
    /// The question that the experiment answers.
    pub(crate) question: String,
    /// The network and traffic of the experiment, and how they differ from the paper.
    pub(crate) method: String,
    /// The measured quantities, in the order of tables.
    pub(crate) quantities: Vec<Quantity>,
    /// Factors of the baseline: each cell is compared with the cell that differs only in having these values. Empty: no comparison.
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

/// A plot of a quantity over a factor.
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
    /// Plots of these quantities over a factor.
    pub(crate) fn over(factor: &str, quantities: &[Quantity]) -> Vec<Self> {
        let plot = |quantity: &Quantity| Self { quantity: *quantity, over: factor.to_owned(), log: false };
        quantities.iter().map(plot).collect()
    }

    /// As [`Plot::over`], with a logarithmic horizontal axis.
    pub(crate) fn logarithmic(factor: &str, quantities: &[Quantity]) -> Vec<Self> {
        Self::over(factor, quantities).into_iter().map(|plot| Self { log: true, ..plot }).collect()
    }
}

/// A plot of single values of the runs of some cells.
#[derive(Clone, Debug)]
pub(crate) struct DetailPlot {
    /// The kind of plot.
    pub(crate) shape: Shape,
    /// The factors that select cells. Empty: all cells.
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
    /// The factors that identify the cell, or several cells.
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
    /// A value in the unit of the quantity.
    Absolute(f64),
    /// A change relative to the baseline: 0.1 is 10 % more.
    Change(f64),
}

/// A setting that an experiment varies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Factor {
    /// The name, for example `paths`.
    pub(crate) name: String,
    /// The value, for example `3`.
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

/// The values that one run measured, or the reason why the run failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunRecord {
    /// Name of the experiment.
    pub(crate) experiment: String,
    /// The factors of the cell.
    pub(crate) factors: Vec<Factor>,
    /// Number of the run among the runs of the cell, from 0.
    pub(crate) repetition: u32,
    /// Seed of the random numbers of the run.
    pub(crate) seed: u64,
    /// Start of the run.
    pub(crate) began: Timestamp,
    /// Duration of the run in seconds, including the time to build and remove the network.
    pub(crate) took_s: f64,
    /// Source of the energy figures.
    pub(crate) energy: EnergySource,
    /// Measured values. Empty: the run failed.
    pub(crate) values: Vec<(Quantity, f64)>,
    /// Single values, for plots.
    pub(crate) details: Vec<Detail>,
    /// The reason why the run failed or was skipped. `None`: it succeeded.
    pub(crate) error: Option<String>,
}

/// The machine and the settings of a study.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The machine; with two machines, the client's.
    pub(crate) host: Host,
    /// The machine of the server. `null`: both ends are on one machine.
    #[serde(default)]
    pub(crate) server: Option<Host>,
    /// Model name of the CPU of `host`. Empty: unknown.
    pub(crate) cpu: String,
    /// Number of CPUs of `host`.
    pub(crate) cpus: u32,
    /// Seed of the study.
    pub(crate) seed: u64,
    /// Whether sizes and times were reduced (`--quick`).
    pub(crate) quick: bool,
    /// Whether energy is simulated.
    pub(crate) simulated_energy: bool,
}

/// The results of a study.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Study {
    /// Version of this format.
    pub(crate) schema: u32,
    /// The machine and the settings of the study.
    pub(crate) origin: Origin,
    /// Start of the first run. `null`: there are no runs.
    pub(crate) from: Option<Timestamp>,
    /// End of the last run. `null`: there are no runs.
    pub(crate) to: Option<Timestamp>,
    /// The results of each experiment.
    pub(crate) experiments: Vec<ExperimentResults>,
}

/// The results of an experiment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ExperimentResults {
    /// The description of the experiment.
    #[serde(flatten)]
    pub(crate) description: Description,
    /// The results of each cell, in the order of the definition.
    pub(crate) cells: Vec<CellResults>,
}

/// The results of all runs of a cell.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CellResults {
    /// The factors that identify the cell.
    pub(crate) factors: Vec<Factor>,
    /// Number of runs that succeeded.
    pub(crate) runs: u32,
    /// For each other run, the reason why it failed or was skipped.
    pub(crate) failures: Vec<String>,
    /// Source of the energy figures: the least reliable source among the runs. `absent`: no run has energy figures.
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
    /// The number of the run of each value, from 0.
    pub(crate) repetitions: Vec<u32>,
    /// The mean of the values.
    pub(crate) mean: f64,
    /// The 95 % confidence interval of the mean, within the range of the quantity. `null`: fewer than two runs.
    pub(crate) interval: Option<(f64, f64)>,
    /// Relative change from the baseline (0.1: 10 % more). `null`: no baseline, this cell is the baseline, or too few runs.
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
    /// The value of a factor. `None`: the cell does not have this factor.
    pub(crate) fn factor(&self, name: &str) -> Option<&str> {
        self.factors.iter().find(|factor| factor.name == name).map(|factor| factor.value.as_str())
    }

    /// The values of a quantity. `None`: the quantity was not measured.
    pub(crate) fn measured(&self, quantity: Quantity) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.quantity == quantity)
    }
}
