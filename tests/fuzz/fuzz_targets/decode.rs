// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arbitrary bytes in the place of the kernel's records. Half of the inputs get a valid kind and the right length, so that
//! the fields are reached and not only the checks before them. Whatever decodes can be written to a recording and read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpwatch_ebpf::decode::{self, CONNECTION_BYTES, SUBFLOW_BYTES};
use mpwatch_model::event::KernelEvent;

/// `MPW_RECORD_SUBFLOW`, `MPW_RECORD_CONNECTION` and the two of what is unchanged, with the length of each. (How long samples are
/// stands in them.)
const RECORDS: [(u32, usize); 4] = [(1, SUBFLOW_BYTES), (2, CONNECTION_BYTES), (3, 16), (4, 16)];

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    let forced = RECORDS.get(usize::from(choice % 8));
    if let Some((kind, length)) = forced {
        bytes.resize(*length, *choice);
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
    }
    let decoded = decode::record(&bytes);
    assert!(forced.is_none() || decoded.is_ok(), "{decoded:?}");
    if let Ok(event) = decoded {
        let line = serde_json::to_vec(&event).expect("every event can be written");
        let back: KernelEvent = serde_json::from_slice(&line).expect("what was written can be read");
        assert_eq!(back, event);
    }
});
