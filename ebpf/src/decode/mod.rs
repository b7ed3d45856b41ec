// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes records of the BPF programs into events of the model. The ABI types do not leave this crate.

mod batch;
mod cgroup;
mod connection;
mod field;
mod subflow;

use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::kernel::event::KernelEvent;

use crate::abi;
use connection::connection;
use subflow::subflow;

/// Length of a subflow's record in bytes, the longest record that an iterator writes.
pub const SUBFLOW_BYTES: usize = size_of::<abi::mpw_subflow>();
/// Length of a connection's record in bytes.
pub const CONNECTION_BYTES: usize = size_of::<abi::mpw_connection>();

/// Decodes one record. `None`: the bytes are not a record of this version. The caller counts an error and continues with the next record.
pub fn record(bytes: &[u8]) -> Option<KernelEvent> {
    Some(match u32::from_ne_bytes(*bytes.first_chunk::<4>()?) {
        abi::MPW_RECORD_SUBFLOW => KernelEvent::Subflow(subflow(plain(bytes)?)),
        abi::MPW_RECORD_CONNECTION => KernelEvent::Connection(connection(&plain(bytes)?)),
        abi::MPW_RECORD_UNCHANGED_SUBFLOW | abi::MPW_RECORD_UNCHANGED_CONNECTION => unchanged(plain(bytes)?),
        abi::MPW_RECORD_SAMPLE_BATCH => KernelEvent::Samples(batch::batch(bytes)?),
        abi::MPW_RECORD_CGROUP => KernelEvent::Cgroup(cgroup::cgroup(&plain(bytes)?)),
        _ => return None,
    })
}

/// Reads a record of fixed length.
fn plain<T: bytemuck::Pod>(bytes: &[u8]) -> Option<T> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// Length of the record at the start of these bytes. `None`: too few bytes, or not a record.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    match u32::from_ne_bytes(*bytes.first_chunk::<4>()?) {
        abi::MPW_RECORD_SUBFLOW => Some(SUBFLOW_BYTES),
        abi::MPW_RECORD_CONNECTION => Some(CONNECTION_BYTES),
        abi::MPW_RECORD_UNCHANGED_SUBFLOW | abi::MPW_RECORD_UNCHANGED_CONNECTION => {
            Some(size_of::<abi::mpw_unchanged>())
        }
        abi::MPW_RECORD_SAMPLE_BATCH => batch::length(bytes),
        abi::MPW_RECORD_CGROUP => Some(size_of::<abi::mpw_cgroup>()),
        _ => None,
    }
}

fn unchanged(abi::mpw_unchanged { kind, generation, cookie }: abi::mpw_unchanged) -> KernelEvent {
    let cookie = SocketCookie(cookie);
    if kind == abi::MPW_RECORD_UNCHANGED_SUBFLOW {
        KernelEvent::SubflowUnchanged(SubflowId { cookie, generation })
    } else {
        KernelEvent::ConnectionUnchanged(cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CGROUP_BYTES: usize = size_of::<abi::mpw_cgroup>();

    #[test]
    fn bytes_that_are_not_a_record_are_refused() {
        for bytes in [&[][..], &[9, 0, 0, 0], &abi::MPW_RECORD_CONNECTION.to_ne_bytes()] {
            assert_eq!(record(bytes), None);
        }
    }

    #[test]
    fn an_empty_record_has_no_values() {
        let raw = abi::mpw_subflow { kind: abi::MPW_RECORD_SUBFLOW, ..Default::default() };
        let Some(KernelEvent::Subflow(subflow)) = record(bytemuck::bytes_of(&raw)) else {
            panic!("no subflow")
        };
        assert_eq!(
            (subflow.msk, subflow.created, subflow.interface, subflow.owner),
            (None, None, None, None)
        );
        assert_eq!(subflow.tcp.timeouts, None);
        assert!(subflow.stalls.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_but_never_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..CGROUP_BYTES + 8),
            kind in 0u8..8,
            exact in any::<bool>(),
        ) {
            if let Some(first) = bytes.first_chunk_mut::<4>() {
                *first = u32::from(kind).to_ne_bytes();
            }
            let expected = length(&bytes);
            let is_known = bytes.len() >= 4 && (1..=6).contains(&kind);
            // The length of a batch (kind 5) is known only if the bytes contain a valid sample count.
            let is_right = if kind == 5 { is_known || expected.is_none() } else { expected.is_some() == is_known };
            prop_assert!(is_right, "{:?} of kind {}", expected, kind);
            if let (true, Some(expected)) = (exact, expected) {
                bytes.resize(expected, 0xa5);
            }
            prop_assert_eq!(record(&bytes).is_some(), expected == Some(bytes.len()));
        }
    }
}
