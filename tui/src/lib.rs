// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws a [`Snapshot`](mpwatch_model::snapshot::Snapshot) as a table for a terminal of a given size. Pure: it returns
//! text. The terminal itself (its size, the alternate screen, keys) belongs to the caller.

mod cell;
mod columns;
mod empty;
mod header;
mod layout;
mod style;
mod table;

pub use style::Style;
pub use table::{Size, live_frame, table};
