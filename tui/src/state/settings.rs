// SPDX-License-Identifier: MIT OR Apache-2.0
//! The initial settings of the screen.

use crate::state::key::Keymap;
use crate::theme::Theme;
use crate::units::Units;

/// The source of the snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// This process traces the kernel itself.
    #[default]
    Tracer,
    /// A daemon. The string is the path of its socket.
    Daemon(String),
    /// A recording in this file. The user can pause it and step through it.
    Replay(String),
}

/// Settings of the screen.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Colours.
    pub theme: Theme,
    /// Whether only ASCII characters are drawn.
    pub ascii: bool,
    /// The key bindings.
    pub keys: Keymap,
    /// The units of rates and energy.
    pub units: Units,
    /// Columns that the user added or removed: name, and whether the column is shown.
    pub columns: Vec<(String, bool)>,
    /// The name of the column by which connections are sorted. `None`: sorted by activity.
    pub sort: Option<String>,
    /// The filter at the start.
    pub filter: String,
    /// Whether command-line options (`--netns`, `--filter`) restrict the connections in the snapshots.
    pub is_narrowed: bool,
    /// The source of the snapshots.
    pub origin: Origin,
    /// A line below the header that names the scenario of a demo. `None`: not a demo.
    pub banner: Option<String>,
    /// Whether MPTCP is enabled in the network namespace of this process. `None`: unknown.
    pub mptcp_enabled: Option<bool>,
}
