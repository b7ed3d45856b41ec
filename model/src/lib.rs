// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of mpwatch: no I/O, no clock.
//!
//! [`event`] has what the kernel reports, [`snapshot`] what outputs show, [`metric`] declares each number's name, unit and meaning.

pub mod bottleneck;
pub mod capacity;
pub mod class_totals;
pub mod clock;
pub mod connection;
pub mod cpu;
pub mod derived;
pub mod elimination;
pub mod end;
pub mod endpoint;
pub mod energy;
pub mod event;
pub mod filter;
pub mod finding;
pub mod flow_class;
pub mod goodput;
pub mod histogram;
pub mod host;
pub mod id;
pub mod idle;
pub mod lifecycle;
pub mod metric;
pub mod names;
pub mod observed;
pub mod outage;
pub mod overhead;
pub mod pairing;
pub mod ratio;
pub mod sample;
pub mod series;
pub mod service;
pub mod settle;
pub mod setup;
pub mod snapshot;
pub mod statistics;
pub mod study;
pub mod subflow;
pub mod table;
pub mod timeline;
pub mod unit;
pub mod wire;
mod words;
