// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live loop: events of the running kernel or of a recording feed the tracker, which gives a snapshot at each tick.

pub(crate) mod budget;
pub(crate) mod cost;
pub(crate) mod kernel;
pub(crate) mod owners;
pub(crate) mod playback;
mod questions;
pub(crate) mod recording;
pub(crate) mod session;
pub(crate) mod source;
pub(crate) mod windows;
