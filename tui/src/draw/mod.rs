// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the state of the screen without changing it. Each part of the screen has a file.

mod alarms;
pub(crate) mod areas;
mod charts;
pub(crate) mod detail;
mod energy;
mod findings;
mod footer;
mod frame;
pub(crate) mod header;
pub(crate) mod health;
mod placeholder;
pub(crate) mod popup;
mod screen;
pub(crate) mod table;
mod ticks;

pub(crate) use alarms::alarms;
pub(crate) use header::titles as header_titles;
pub use screen::draw;
