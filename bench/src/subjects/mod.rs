// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements of mpwatch, with a file for each subject. Each returns Markdown tables for docs/measurements. Figures are ratios within one
//! run if possible. A run never fails because of a figure.

mod bystander;
mod connections;
mod detection;
mod idle;
mod interleave;
mod ledger;
mod ledger_variants;
mod overhead;
pub mod peer_tools;
mod peers;
mod programs;
mod scale;
mod scrape;
mod screen;
mod snapshot;
mod tracing;
mod traffic;

use crate::effort::Effort;

/// A function that measures a subject and returns tables.
pub(crate) type Subject = fn(Effort) -> String;

/// All subjects, by their names on the command line.
pub(crate) const SUBJECTS: [(&str, Subject); 11] = [
    ("overhead", overhead::run),
    ("bystander", bystander::run),
    ("ledger", ledger::run_all),
    ("peers", peers::run),
    ("snapshot", snapshot::run),
    ("scale", scale::run),
    ("connections", connections::run),
    ("idle", idle::run),
    ("scrape", scrape::run),
    ("detection", detection::run),
    ("tui", screen::run),
];
