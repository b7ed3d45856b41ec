// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections and subflows as shown in outputs, and values derived from them.

pub mod bottleneck;
pub mod class;
pub mod class_totals;
pub mod connection;
pub mod elimination;
pub mod end;
pub mod goodput;
pub mod idle;
pub mod observed;
pub mod outage;
pub mod pairing;
pub mod progress;
pub mod ratio;
pub mod series;
pub mod subflow;
pub mod timeline;
pub mod wire;
