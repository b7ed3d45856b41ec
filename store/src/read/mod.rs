// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a file back: reports over a period, and tables of a report for CSV.

pub(crate) mod archive;
pub(crate) mod sheet;
