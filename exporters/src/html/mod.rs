// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one HTML file without scripts and requests, for screens and paper. Same sentences and tables as [`crate::text`].

mod drawing;
mod lanes;
mod markup;
mod page;
mod rates;

pub use page::report;
