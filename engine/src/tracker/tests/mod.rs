// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracker on event streams made by hand.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bottleneck;
mod cpu;
mod dropped;
mod idle;
mod lifecycle;
mod outage;
mod progress;
mod records;
mod reuse;
