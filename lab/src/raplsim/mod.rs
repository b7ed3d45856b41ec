// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated RAPL: sysfs trees as real machines show them, counters that tick by a known law, faults on demand, and the truth
//! to compare with. For machines without RAPL (the CI machine, most virtual ones), for tests and for the demo, which marks
//! every number of it as simulated. It attributes nothing: what others make of its counters is what gets tested.
//!
//! [`Shape`] says which zones there are, [`Tree`] keeps them in files, [`Machine`] turns busy time into energy, [`replay`]
//! plays scenarios without a clock, [`live`] follows what really runs, [`formula`] holds other tools' formulas.

mod curve;
pub mod formula;
pub mod live;
mod machine;
mod register;
pub mod replay;
mod shape;
mod tasks;
mod tree;

pub use curve::{Curve, RECORDED};
pub use machine::{Machine, Picojoules, Power};
pub use register::{Lsb, Register};
pub use shape::{Feed, Shape, ZoneSpec};
pub use tree::{Fault, Layout, Tree};
