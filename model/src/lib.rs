// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data types of mpwatch. No code here does I/O or reads a clock.
//!
//! [`kernel`] has the events of the kernel, [`flow`] connections and subflows, [`host`] the machine, [`snapshot`] the contents of outputs;
//! [`metric`] declares the name, unit and meaning of each number.

pub mod capacity;
pub mod filter;
pub mod finding;
pub mod flow;
pub mod host;
pub mod id;
pub mod kernel;
pub mod metric;
pub mod quantity;
pub mod settle;
pub mod snapshot;
pub mod statistics;
pub mod table;
pub mod unit;
pub mod why;
mod words;
