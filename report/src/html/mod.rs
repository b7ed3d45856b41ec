// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one HTML file without scripts and requests, for screens and paper. It has the sentences and tables of [`crate::text`].

pub mod axis;
pub mod bars;
mod card;
mod comparison;
pub mod distributions;
mod download;
mod drawing;
mod intervals;
mod lanes;
mod marker;
pub mod markup;
mod over_time;
pub mod page;
pub mod plot;
mod rates;

pub use comparison::comparison;
pub use page::report;
