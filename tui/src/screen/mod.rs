// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view: [`App`] is its state, changed by events only; [`draw`] draws it; [`terminal`] is the edge to a real terminal. Nothing
//! else in here does I/O or looks at a clock.

mod app;
mod areas;
mod columns;
mod digest;
mod draw;
mod edit;
mod finding;
mod flows;
mod history;
mod key;
mod mask;
mod rows;
mod sums;
pub mod terminal;
mod text;
mod theme;
mod units;
mod update;

pub use app::{App, Event, ExportFormat, Feed, Link, Notice, Origin, Request, Settings, Tab};
pub use columns::names as column_names;
pub use digest::Digested;
pub use draw::draw;
pub use key::{Action, BINDINGS, Binding, Chord, KeyError, Keymap};
pub use theme::Theme;
pub use units::Units;
