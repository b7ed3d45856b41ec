// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings that the screen starts with.

use crate::state::key::Keymap;
use crate::theme::Theme;
use crate::units::Units;

/// The source of the snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// This process traces.
    #[default]
    Tracer,
    /// A daemon at this socket.
    Daemon(String),
    /// A recording, which can be paused and stepped through.
    Replay(String),
}

/// Settings of the screen.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Colours.
    pub theme: Theme,
    /// Draws in ASCII only.
    pub ascii: bool,
    /// Keys.
    pub keys: Keymap,
    /// Units.
    pub units: Units,
    /// Columns that the user shows or hides: name, shown.
    pub columns: Vec<(String, bool)>,
    /// The column that connections are sorted by. `None`: by activity.
    pub sort: Option<String>,
    /// The filter at the start.
    pub filter: String,
    /// Whether options of the command line have removed connections from the snapshots.
    pub is_narrowed: bool,
    /// The source of the snapshots.
    pub origin: Origin,
    /// A line below the header that names the scenario of a demo.
    pub banner: Option<String>,
    /// Whether MPTCP is enabled in the namespace of the screen. `None`: unknown.
    pub mptcp_enabled: Option<bool>,
}
