// SPDX-License-Identifier: MIT OR Apache-2.0
//! Divides the energy of each zone and window among flows and everything else ([`attribute`]), by the CPU time in the [`ledger`]. The
//! method and its limits are in docs/energy.md.

mod apportion;
pub mod attribute;
mod baseline;
pub mod calibration;
mod curve;
pub mod fit;
pub mod ledger;
mod share;
