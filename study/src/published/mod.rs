// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published detection methods, for a comparison with mpwatch's own method on the same samples.

mod dcw;
mod decisions;
mod dwc;
mod ese;
mod pairs;
mod rfc8382;
mod variant;
mod wavelet;

#[cfg(test)]
mod tests;

pub use variant::{Variant, new};
