// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions of experiments as tables of a program, which become those of results. `results.rs` says what each field means.

use super::detail::Shape;
use super::quantity::Quantity;
use super::results::{self, Factor, PublishedValue};

/// What an experiment is about, and how to show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// One line.
    pub(crate) title: &'static str,
    /// Key of the paper.
    pub(crate) paper: &'static str,
    /// What it answers.
    pub(crate) question: &'static str,
    /// What is built and measured here, and where that differs from the paper.
    pub(crate) method: &'static str,
    /// What is measured.
    pub(crate) quantities: &'static [Quantity],
    /// Factors, with the values that they have in the cell of comparison.
    pub(crate) baseline: &'static [(&'static str, &'static str)],
    /// Its plots.
    pub(crate) plots: &'static [Plot],
    /// Its plots of single values, each with the factors that its cells have in common.
    pub(crate) detail_plots: &'static [(Shape, &'static [(&'static str, &'static str)])],
    /// What the paper reports.
    pub(crate) published: &'static [Published],
}

/// A quantity over a factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plot {
    /// The vertical axis.
    pub(crate) quantity: Quantity,
    /// The factor of the horizontal axis.
    pub(crate) over: &'static str,
    /// Whether the horizontal axis is logarithmic.
    pub(crate) log: bool,
}

/// A value that a paper reports for a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// The cell, by the factors that identify it.
    pub(crate) cell: &'static [(&'static str, &'static str)],
    /// What was measured.
    pub(crate) quantity: Quantity,
    /// The value.
    pub(crate) value: PublishedValue,
    /// On which machine or network.
    pub(crate) setup: &'static str,
}

impl From<&Description> for results::Description {
    fn from(table: &Description) -> Self {
        Self {
            name: table.name.to_owned(),
            title: table.title.to_owned(),
            paper: table.paper.to_owned(),
            question: table.question.to_owned(),
            method: table.method.to_owned(),
            quantities: table.quantities.to_vec(),
            baseline: factors(table.baseline),
            plots: table.plots.iter().map(results::Plot::from).collect(),
            detail_plots: table
                .detail_plots
                .iter()
                .map(|(shape, cells)| results::DetailPlot { shape: *shape, cells: factors(cells) })
                .collect(),
            published: table.published.iter().map(results::Published::from).collect(),
        }
    }
}

impl From<&Plot> for results::Plot {
    fn from(table: &Plot) -> Self {
        Self { quantity: table.quantity, over: table.over.to_owned(), log: table.log }
    }
}

impl From<&Published> for results::Published {
    fn from(table: &Published) -> Self {
        let Published { cell, quantity, value, setup } = *table;
        Self { cell: factors(cell), quantity, value, setup: setup.to_owned() }
    }
}

fn factors(table: &[(&str, &str)]) -> Vec<Factor> {
    table.iter().map(|(name, value)| Factor::new(name, value)).collect()
}
