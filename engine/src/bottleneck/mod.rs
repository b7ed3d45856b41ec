// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects which subflows share a bottleneck from the sender's delay samples, by mpwatch's method (`concordance.rs`) or a published one.

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
