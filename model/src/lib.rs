// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of mpwatch, and nothing else: no I/O, no clock, no kernel.
//!
//! [`event`] is what the kernel side tells, [`snapshot`] is what every output draws, [`metric`] is the one
//! place where a number gets its name, unit and meaning. Everything else is a part of those.

pub mod across;
pub mod bottleneck;
pub mod connection;
pub mod cpu;
pub mod endpoint;
pub mod energy;
pub mod event;
pub mod filter;
pub mod finding;
#[cfg(feature = "fixtures")]
pub mod fixture;
pub mod flow_class;
pub mod histogram;
pub mod host;
pub mod id;
pub mod lifecycle;
pub mod metric;
pub mod outage;
pub mod ratio;
pub mod sample;
pub mod service;
pub mod snapshot;
pub mod subflow;
pub mod timeline;
pub mod unit;
pub mod wire;
