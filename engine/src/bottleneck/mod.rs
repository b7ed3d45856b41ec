// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects shared bottlenecks from the sender's delay samples, by mpwatch's own method (`concordance.rs`) or another [`Method`].

mod backoff;
mod concordance;
mod decision;
mod detector;
mod evaluation;
mod feature;
mod method;
mod odds;
mod pool;
mod series;
mod statistics;
mod traffic;

#[cfg(test)]
mod tests;

pub use concordance::Concordance;
pub use detector::Detector;
pub use evaluation::{Evaluation, PairEvaluation, groups};
pub use method::{Method, NewMethod};
pub use odds::{TERMS, Term};
pub use pool::{AddressPair, Pool, PooledPair};
pub use statistics::correlation;
