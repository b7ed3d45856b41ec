// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of `include/mpwatch_abi.h`, generated at build time. They do not leave this crate.
#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, unreachable_pub, dead_code)]
#![allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
