// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one HTML file without scripts and requests, for screens and paper. Same sentences and tables as [`crate::text`].

mod axis;
mod bars;
mod card;
mod comparison;
mod distributions;
mod download;
mod drawing;
mod intervals;
mod lanes;
mod marker;
mod markup;
mod over_time;
mod page;
mod plot;
mod rates;
mod study;
mod study_details;
mod study_labels;
mod style;

pub use comparison::comparison;
pub use page::report;
pub use study::study;
