// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of a study: descriptions of experiments, records of runs, and the results of each cell with the paper's values. No I/O.

pub(crate) mod detail;
pub(crate) mod quantity;
mod results;
mod summary;

pub(crate) use results::{
    CellResults, Description, DetailPlot, ExperimentResults, Factor, Measured, Origin, Plot, Published,
    PublishedValue, Reported, RunRecord, SCHEMA, Study, factors, key,
};
