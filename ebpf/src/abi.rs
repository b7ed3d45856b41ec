// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of the build script: the types of `include/mpwatch_abi.h`, which do not leave this crate, and the BPF objects.
#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, unreachable_pub, dead_code)]
#![allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// The compiled congestion control.
pub static CONGESTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/congestion.bpf.o"));
/// The compiled tracing programs, one object for all kernels.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mpwatch.bpf.o"));
