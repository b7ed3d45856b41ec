// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view: [`App`] is the state, [`draw`] draws the state, [`terminal`] reads events from a terminal and writes to it.

pub use crate::columns::names as column_names;
pub use crate::digest::Digested;
pub use crate::draw::draw;
pub use crate::state::app::App;
pub use crate::state::key::{Action, BINDINGS, Binding, Chord, Keymap};
pub use crate::state::message::{Event, ExportFormat, Feed, Link, Notice, Request};
pub use crate::state::settings::{Origin, Settings};
pub use crate::state::view::Tab;
pub use crate::terminal;
pub use crate::theme::Theme;
pub use crate::units::Units;
