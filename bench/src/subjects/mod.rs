// SPDX-License-Identifier: MIT OR Apache-2.0
//! What mpwatch costs, a file for each subject. Each prints Markdown tables for docs/performance.md. Figures are ratios within one run wherever
//! possible, and no figure makes a run fail.

mod detection;
mod idle;
mod load;
mod overhead;
mod programs;
mod scrape;
mod screen;
mod snapshot;

use crate::effort::Effort;

pub(crate) type Subject = fn(Effort) -> String;

pub(crate) const SUBJECTS: [(&str, Subject); 6] = [
    ("overhead", overhead::run),
    ("snapshot", snapshot::run),
    ("idle", idle::run),
    ("scrape", scrape::run),
    ("detection", detection::run),
    ("tui", screen::run),
];
