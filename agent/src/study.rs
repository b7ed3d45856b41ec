// SPDX-License-Identifier: MIT OR Apache-2.0
//! Studies: the experiments of published papers, run in the lab. [`experiments`] declares them as data, [`plan`] orders their runs,
//! [`run`] executes one, [`measure`] computes its values.

pub(crate) mod experiment;
pub(crate) mod experiments;
pub(crate) mod measure;
pub(crate) mod plan;
pub(crate) mod run;
