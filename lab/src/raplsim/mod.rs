// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated RAPL: powercap trees as in sysfs, counters that follow a known power model, faults, and the ground truth for
//! comparison. Tests and the demo use them on machines without RAPL, such as most virtual machines. The demo marks all its
//! energy values as simulated.
//!
//! [`Platform`] lists the zones of a machine, [`PowercapTree`] writes them as files, [`SimulatedMachine`] computes energy
//! from busy time, [`live`] advances the counters with real CPU time.

mod counter;
mod curve;
pub mod live;
mod machine;
mod platform;
mod procfs;
mod task_clocks;
mod tree;

pub use counter::{EnergyCounter, EnergyUnit};
pub use curve::RecordedCurve;
pub use machine::{Picojoules, PowerModel, SimulatedMachine};
pub use platform::{Domain, Platform, ZoneSpec};
pub use tree::{Fault, PowercapTree, SysfsLayout};
