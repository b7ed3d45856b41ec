// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the daemon removes extra subflows.

mpwatch_model::words! {
    /// The values of `control.eliminate`.
    #[derive(Default)]
    pub(crate) enum Switch {
        /// It decides nothing.
        #[default]
        Off = "off",
        /// It decides and reports, and changes nothing.
        DryRun = "dry-run",
        /// It removes them.
        On = "on",
    }
}
