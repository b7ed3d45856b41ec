// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy: reads the machine's counters, and divides what they show among flows and everybody else. The method and its limits
//! are in docs/energy.md.
//!
//! Two layers that never mix. *Reading*: [`source`] finds the best counters there are, [`sampler`] turns their values into
//! windows. *Splitting*: [`attribute`] is a function of those windows and of the CPU ledger ([`ledger`]), without I/O. A tick is
//!
//! ```text
//! sampler.window(&mut window, &mut ledger, |ledger| /* settle: add what the kernel side counted */);
//! split.charge(&window, &ledger);
//! split.flow(subflow)   // Charge; for a connection FlowEnergy::sum of its subflows
//! split.snapshot(sampler.advice())
//! ```

mod apportion;
pub(crate) mod attribute;
mod baseline;
pub(crate) mod calibrate;
pub(crate) mod calibration;
mod counter;
mod curve;
mod estimate;
pub(crate) mod ledger;
mod perf;
mod powercap;
pub(crate) mod sampler;
mod share;
mod slot;
pub(crate) mod source;
mod topology;
pub(crate) mod window;
mod zone;

#[cfg(test)]
mod tests;
