// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain text for people. Lines fit 100 columns where addresses are short. There are no colours, so that reports can be kept and compared.

pub(crate) mod classes;
pub(crate) mod comparison;
pub(crate) mod connection;
mod cost;
mod fairness;
pub(crate) mod fit;
mod goodput;
pub mod grid;
mod peers;
pub(crate) mod report;
pub(crate) mod selection;
pub(crate) mod summary;
pub(crate) mod timeline;
pub mod words;

pub use comparison::comparison;
pub use connection::connection;
pub use report::{report, report_summary, report_within};
