// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays arbitrary bytes as a compressed recording.
#![no_main]
#![allow(dead_code, reason = "this target uses only a part of the program's files")]

mod program;
#[path = "../../../agent/src/recording.rs"]
mod recording;
#[path = "../../../agent/src/session.rs"]
mod session;
#[path = "../../../agent/src/source.rs"]
mod source;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    if let Ok(decoder) = zstd::Decoder::with_buffer(file) {
        program::replay(std::io::BufReader::new(decoder));
    }
});
