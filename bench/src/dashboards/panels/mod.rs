// SPDX-License-Identifier: MIT OR Apache-2.0
//! The panels, with a file for each dashboard.

mod energy;
mod fleet;
mod flows;
mod health;
mod overview;
mod paths;

pub(super) use energy::ENERGY;
pub(super) use fleet::FLEET;
pub(super) use flows::FLOWS;
pub(super) use health::HEALTH;
pub(super) use overview::OVERVIEW;
pub(super) use paths::PATHS;
