// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which subflows share a bottleneck: functions of the sender's delay samples. mpwatch uses the method in `concordance.rs`; the published
//! methods implement the same trait, so all can be compared on the same samples.

mod backoff;
mod cap;
mod concordance;
mod detector;
mod evaluation;
mod feature;
mod group;
mod method;
mod odds;
mod published;
mod series;
mod statistics;
mod traffic;
mod variant;

#[cfg(test)]
pub(crate) mod tests;

pub use detector::Detector;
pub use evaluation::{Cap, Evaluation, PairEvaluation};
pub use group::groups;
pub use odds::{TERMS, Term};
pub use variant::Variant;
