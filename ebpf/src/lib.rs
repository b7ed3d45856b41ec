// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel side of mpwatch. The only C, the only libbpf and (but for the lab's sockets) the only `unsafe` of the
//! project live here. Above this crate there are only [`mpwatch_model::event::KernelEvent`]s.
//!
//! [`support`] says what a kernel can do (facts from its BTF, rules as pure functions), [`tracer`] loads, attaches and
//! reads, [`decode`] turns bytes into model types.

mod abi;
pub mod core_check;
pub mod decode;
mod iterator;
mod ledger;
pub mod namespace;
pub mod program;
mod settings;
pub mod support;
pub mod tracer;
pub mod yardstick;

/// The linked BPF object: one for all kernels.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mpwatch.bpf.o"));
