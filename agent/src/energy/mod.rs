// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading the machine's energy counters. How their energy is attributed to flows is in `mpwatch_engine::energy`; docs/energy.md
//! describes the method and its limits.
//!
//! [`discovery`] finds the best counters, [`sampler`] turns their values into windows, [`meter`] closes a window at every tick.
//! Windows are part of the event stream and of recordings.

pub(crate) mod calibrate;
pub(crate) mod calibration;
mod counter;
pub(crate) mod discovery;
mod estimate;
pub(crate) mod meter;
mod perf;
mod powercap;
pub(crate) mod sampler;
pub(crate) mod topology;
mod zone;
pub(crate) mod zone_reader;

#[cfg(test)]
mod tests;
