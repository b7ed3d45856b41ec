// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the BPF programs. Half of the inputs get a valid kind and length, so that the fuzzer also reaches the fields. Every decoded
//! event must survive a recording.

use mpwatch_ebpf::decode::{self, CONNECTION_BYTES, SUBFLOW_BYTES};
use mpwatch_model::kernel::event::KernelEvent;

/// Kind and length of `MPW_RECORD_SUBFLOW`, `MPW_RECORD_CONNECTION` and the two records of unchanged flows. (Records of samples contain
/// their length.)
const RECORDS: [(u32, usize); 4] = [(1, SUBFLOW_BYTES), (2, CONNECTION_BYTES), (3, 16), (4, 16)];

pub(crate) fn record(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    let forced = RECORDS.get(usize::from(choice % 8));
    if let Some((kind, length)) = forced {
        bytes.resize(*length, *choice);
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
    }
    let decoded = decode::record(&bytes);
    assert!(forced.is_none() || decoded.is_some(), "{decoded:?}");
    if let Some(event) = decoded {
        let back = serde_json::to_vec(&event).and_then(|line| serde_json::from_slice::<KernelEvent>(&line));
        match back {
            Ok(back) => assert_eq!(back, event),
            Err(error) => panic!("an event does not survive a recording: {error}: {event:?}"),
        }
    }
}
