// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel side of mpwatch: all C code, `unsafe` code and calls of libbpf, except in the lab. Other crates get
//! [`mpwatch_model::kernel::event::KernelEvent`]s.
//!
//! [`support`]: which programs a kernel can run. [`tracer`]: loads and attaches them, reads their records. [`decode`]: bytes to events.
//! [`congestion`]: the congestion control `mptcpd`, in a BPF object of its own.

mod abi;
pub mod congestion;
pub mod cpus;
pub mod decode;
mod error;
pub mod heap;
pub mod namespace;
pub mod netlink;
pub mod netns_cookie;
pub mod run_statistics;
pub mod support;
pub mod system_clock;
pub mod tracer;

pub use abi::OBJECT;
