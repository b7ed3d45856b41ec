// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arbitrary lines in the place of an uncompressed recording. Start it from the lines of real ones: see README.md.
#![no_main]
#![allow(dead_code, reason = "the program uses more of its files than this target does")]

mod program;
#[path = "../../../agent/src/recording.rs"]
mod recording;
#[path = "../../../agent/src/session.rs"]
mod session;
#[path = "../../../agent/src/source.rs"]
mod source;

libfuzzer_sys::fuzz_target!(|lines: &[u8]| program::replay(lines));
