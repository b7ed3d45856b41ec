// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why bytes are not a record, and the check that every fixed-length record passes.

use bytemuck::Pod;

/// Bytes that are not a record of ours. Counted as a loss; decoding goes on with the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the fields")]
pub enum DecodeError {
    /// Too short to have a kind.
    #[error("a record of {0} bytes is too short to have a kind")]
    NoKind(usize),
    /// A kind that this version does not know.
    #[error("no record has kind {0}")]
    UnknownKind(u32),
    /// The length does not match the kind.
    #[error("a record of kind {kind} has {expected} bytes, not {got}")]
    WrongLength { kind: u32, expected: usize, got: usize },
}

/// Reads a record of fixed length.
pub(super) fn plain<T: Pod>(bytes: &[u8], kind: u32) -> Result<T, DecodeError> {
    bytemuck::try_pod_read_unaligned(bytes).map_err(|_| DecodeError::WrongLength {
        kind,
        expected: size_of::<T>(),
        got: bytes.len(),
    })
}
