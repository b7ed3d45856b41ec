// SPDX-License-Identifier: MIT OR Apache-2.0
//! Studies: experiments of published papers, repeated. What they ask, what was measured in each cell, and what the paper says. Pure.

pub mod declared;
pub mod detail;
pub mod quantity;
mod results;
mod summary;

pub use results::{
    Cell, Description, DetailPlot, Experiment, Factor, Measured, Origin, Plot, Published, PublishedValue,
    Reported, RunRecord, SCHEMA, Study, key,
};
