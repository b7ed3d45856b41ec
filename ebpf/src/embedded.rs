// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compiled BPF programs.

/// The linked BPF object: one for all kernels.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mpwatch.bpf.o"));
