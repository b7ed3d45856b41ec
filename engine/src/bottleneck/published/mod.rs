// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published detection methods, to compare mpwatch's own with on the same samples.

mod dcw;
mod decisions;
mod dwc;
mod ese;
mod rfc8382;
mod wavelet;

pub(super) use dcw::Dcw;
pub(super) use dwc::Dwc;
pub(super) use ese::{Ese, Parameters, Reading};
pub(super) use rfc8382::Rfc8382;
