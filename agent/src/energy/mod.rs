// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy: reads the machine's counters, and divides what they show among flows and everybody else. The method and its limits
//! are in docs/energy.md.
//!
//! Two layers that never mix. *Reading*: [`source`] finds the best counters there are, [`sampler`] turns their values into
//! windows, [`meter`] does so at every tick; windows are part of the event stream and of recordings. *Splitting*: [`attribute`] is
//! a function of those windows and of the CPU ledger ([`ledger`]), without I/O; the tracker charges with it.

pub(crate) mod calibrate;
pub(crate) mod calibration;
mod counter;
mod estimate;
pub(crate) mod meter;
mod perf;
mod powercap;
pub(crate) mod sampler;
mod slot;
pub(crate) mod source;
pub(crate) mod topology;
mod zone;

#[cfg(test)]
mod tests;
