// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes arbitrary bytes as records of the kernel side. Half of the inputs get a valid kind and length, so that the fuzzer also
//! reaches the fields. Every decoded event must survive a recording.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpwatch_ebpf::decode::{self, CONNECTION_BYTES, SUBFLOW_BYTES};
use mpwatch_model::event::KernelEvent;

/// Kind and length of `MPW_RECORD_SUBFLOW`, `MPW_RECORD_CONNECTION` and the two records of unchanged flows. (Records of samples contain
/// their length.)
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
    assert!(forced.is_none() || decoded.is_some(), "{decoded:?}");
    if let Some(event) = decoded {
        let line = serde_json::to_vec(&event).expect("every event can be serialized");
        let back: KernelEvent = serde_json::from_slice(&line).expect("a serialized event can be parsed");
        assert_eq!(back, event);
    }
});
