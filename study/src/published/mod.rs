// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published detection methods, to compare mpwatch's own with on the same samples.

mod dcw;
mod decisions;
mod dwc;
mod ese;
mod rfc8382;
mod wavelet;

pub(crate) use dcw::Dcw;
pub(crate) use dwc::Dwc;
pub(crate) use ese::{Ese, Parameters, Reading};
pub(crate) use rfc8382::Rfc8382;
