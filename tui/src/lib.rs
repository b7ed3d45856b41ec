// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows snapshots: as text ([`table`], [`list`]), and as the live view of a terminal ([`screen`]). The caller provides the snapshots.
//!
//! Modules from the lowest layer to the highest: text and themes; history, digests and mask; `columns`; `state`; `draw`; `input`.

mod aggregate;
mod ascii;
mod batch;
mod columns;
mod context;
mod digest;
mod draw;
mod history;
mod input;
mod layout;
mod mask;
mod masked_report;
pub mod screen;
mod state;
pub mod terminal;
mod text;
mod theme;
mod units;

pub use ascii::text as ascii;
pub use batch::{list, table};
