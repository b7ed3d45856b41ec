// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the machine's energy counters: [`discovery`] finds them, [`sampler`] turns their values into windows, [`meter`] closes a window at
//! every tick. Windows are part of recordings. `mpwatch_engine::energy` attributes them to flows; method and limits: docs/energy.md.

pub(crate) mod calibrate;
pub(crate) mod calibration;
mod counter;
pub(crate) mod discovery;
mod estimate;
mod load;
pub(crate) mod meter;
pub(crate) mod packets;
mod perf;
mod powercap;
pub(crate) mod sampler;
pub(crate) mod simulation;
pub(crate) mod ticks;
pub(crate) mod topology;
mod zone;
pub(crate) mod zone_reader;

#[cfg(test)]
mod tests;
