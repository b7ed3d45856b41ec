// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays arbitrary lines as an uncompressed recording. README.md says how to start from real recordings.
#![no_main]
#![allow(dead_code, reason = "this target uses only a part of the program's files")]

mod program;
#[path = "../../../agent/src/recording.rs"]
mod recording;
#[path = "../../../agent/src/session.rs"]
mod session;
#[path = "../../../agent/src/source.rs"]
mod source;

libfuzzer_sys::fuzz_target!(|lines: &[u8]| program::replay(lines));
