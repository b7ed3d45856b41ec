// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel side of mpwatch: all C, libbpf and `unsafe` (but for the lab). Other crates see [`mpwatch_model::kernel::event::KernelEvent`]s only.
//!
//! From the bottom: [`hook`] (the table of programs), [`support`] (facts about a kernel), [`plan`] (programs to load), `object` (loads and
//! attaches them), `ring`, `iterator`, `counters` and `ledger` (read results), [`tracer`]. [`decode`] turns bytes into events. [`congestion`] is apart: an object of its own.

mod abi;
pub mod congestion;
pub mod core_check;
mod counters;
pub mod cpus;
pub mod decode;
mod error;
pub mod heap;
pub mod hook;
mod iterator;
mod ledger;
mod log;
pub mod namespace;
pub mod netns_cookie;
mod object;
pub mod plan;
pub mod program;
mod ring;
pub mod run_statistics;
mod run_time;
mod settings;
pub mod support;
pub mod system_clock;
pub mod tracer;

pub use abi::OBJECT;
