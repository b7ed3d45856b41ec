// SPDX-License-Identifier: MIT OR Apache-2.0
//! Studies: the experiments of published papers, run in the lab. [`experiments`] declares them as data, [`plan`] orders their runs,
//! [`run`] executes one (`network`, `traffic`, `application`), [`measure`] computes its values.

mod application;
pub(crate) mod details;
pub(crate) mod experiment;
pub(crate) mod experiments;
mod judge;
pub(crate) mod machine;
pub(crate) mod measure;
mod methods;
mod network;
mod outcome;
pub(crate) mod own;
pub(crate) mod plan;
pub(crate) mod programs;
pub(crate) mod run;
mod traffic;
