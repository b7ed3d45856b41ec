// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws [`Snapshot`](mpwatch_model::snapshot::Snapshot)s: as a table of text for pipes and files ([`table`]), and as the live view
//! of a terminal ([`screen`]). Where they come from is the caller's business.

mod cell;
mod columns;
mod empty;
mod header;
mod layout;
pub mod screen;
mod style;
mod table;

pub use style::Style;
pub use table::{Size, table};
