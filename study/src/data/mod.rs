// SPDX-License-Identifier: MIT OR Apache-2.0
//! Studies: experiments of published papers, repeated. What they ask, what was measured in each cell, and what the paper says. Pure.

pub(crate) mod declared;
pub(crate) mod detail;
pub(crate) mod quantity;
mod results;
mod summary;

pub(crate) use results::{
    Cell, Description, DetailPlot, Experiment, Factor, Measured, Origin, Plot, PublishedValue, Reported,
    RunRecord, SCHEMA, Study, key,
};
