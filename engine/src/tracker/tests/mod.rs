// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the tracker on synthetic event streams.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bottleneck;
mod busy;
mod cpu;
mod dropped;
mod end;
mod explanation;
mod idle;
mod lifecycle;
mod outage;
mod path;
mod progress;
mod records;
mod reuse;
mod stall;
