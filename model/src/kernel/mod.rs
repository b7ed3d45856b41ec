// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoded reports of the kernel: events, states, addresses, CPU time, a sender's clocks and delay samples.

pub mod busy;
pub mod clock;
pub mod cpu;
pub mod endpoint;
pub mod event;
pub mod histogram;
pub mod lifecycle;
pub mod sample;
