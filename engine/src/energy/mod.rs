// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes the energy of each zone and window to accounts ([`attribute`]) by CPU time ([`ledger`]). If the ledger is sampled, `sampling`
//! first estimates that CPU time. Method and limits: docs/energy.md.

mod accounts;
mod apportion;
pub mod attribute;
mod baseline;
pub mod calibration;
mod curve;
mod deferred;
pub mod fit;
mod idle;
mod idle_fit;
pub mod ledger;
mod line;
mod placement;
mod samples;
pub(crate) mod sampling;
pub(crate) mod unit_cost;
mod zone;
