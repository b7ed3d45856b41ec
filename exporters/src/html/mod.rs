// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one HTML file without scripts and without requests: drawings are inline SVG, for light and dark screens and for paper.
//! Sentences and tables are those of [`crate::text`].

mod drawing;
mod lanes;
mod markup;
mod page;
mod rates;

pub use page::report;
