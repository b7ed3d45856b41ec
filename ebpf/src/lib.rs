// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel side of mpwatch: all of the project's C, libbpf and (but for the lab's sockets) `unsafe`. Other crates only see
//! [`mpwatch_model::event::KernelEvent`]s.
//!
//! Layers, from the bottom: [`hook`] (the table of programs), [`support`] (facts about a kernel), [`plan`] (which programs to load), `object`
//! (loads and attaches them), `ring`, `iterator`, `counters` and `ledger` (read what they report), [`tracer`]. [`decode`] turns bytes
//! into events.

mod abi;
pub mod core_check;
mod counters;
pub mod cpus;
pub mod decode;
mod error;
pub mod hook;
mod iterator;
mod ledger;
mod log;
pub mod namespace;
mod object;
pub mod plan;
pub mod program;
mod ring;
pub mod run_statistics;
mod settings;
pub mod support;
pub mod tracer;

pub use abi::OBJECT;
