// SPDX-License-Identifier: MIT OR Apache-2.0
//! The style sheet of the pages: colours for light and dark screens and for paper.

/// Rules for the page, beginning with the colours as variables.
pub(super) const PAGE: &str = include_str!("style.css");
/// Rules for drawings; a drawing that is saved takes them along.
pub(super) const DRAWINGS: &str = include_str!("drawings.css");
