// SPDX-License-Identifier: MIT OR Apache-2.0
//! The panels, a file for each dashboard.

mod energy;
mod health;
mod overview;
mod paths;

use super::{Draw, Panel};

pub(super) use energy::ENERGY;
pub(super) use health::HEALTH;
pub(super) use overview::OVERVIEW;
pub(super) use paths::PATHS;

const fn panel(
    title: &'static str,
    draw: Draw,
    unit: &'static str,
    about: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, unit, draw, queries }
}
