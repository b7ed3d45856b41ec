// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of a study: descriptions of experiments, runs, and the results of each cell next to the paper's values. Pure.

pub(crate) mod detail;
pub(crate) mod quantity;
mod results;
mod summary;

pub(crate) use results::{
    CellResults, Description, DetailPlot, ExperimentResults, Factor, Measured, Origin, Plot, Published,
    PublishedValue, Reported, RunRecord, SCHEMA, Study, factors, key,
};
