// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arbitrary bytes in the place of a recording as it lies on the disk.
#![no_main]
#![allow(dead_code, reason = "the program uses more of its files than this target does")]

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
