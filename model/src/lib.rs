// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of mpwatch: no I/O, no clock.
//!
//! [`kernel`] has what the kernel reports, [`flow`] connections and subflows, [`host`] the machine, [`snapshot`] what outputs show;
//! [`metric`] declares each number's name, unit and meaning.

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
mod words;
