// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads BPF iterators. Each read opens a new descriptor; the buffer is reused.

use std::io::{self, Read};

use libbpf_rs::{Iter, Link};

use crate::decode::{self, SUBFLOW_BYTES};

/// Bytes per read: the size of the kernel's buffer for an iterator.
const READ_BYTES: usize = 32 * 1024;

/// Opens an iterator. `iter/tcp` covers the network namespace of the calling thread.
fn open(link: &Link) -> io::Result<Iter> {
    Iter::new(link).map_err(io::Error::other)
}

/// Runs an iterator whose program writes no records.
pub(crate) fn run(link: &Link) -> io::Result<()> {
    let mut iterator = open(link)?;
    let mut nothing = [0; 64];
    while iterator.read(&mut nothing)? > 0 {}
    Ok(())
}

/// Calls `each` for every record that an iterator writes. The caller keeps `buffer`, so that its memory is reused.
pub(crate) fn for_each(link: &Link, buffer: &mut Vec<u8>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut iterator = open(link)?;
    let mut kept = 0;
    buffer.resize(READ_BYTES + SUBFLOW_BYTES, 0);
    loop {
        let read = match iterator.read(&mut buffer[kept..]) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            // The program or the kernel ended the read early, because too many sockets in a row had no record.
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                continue;
            }
            Err(error) => return Err(error),
        };
        let filled = kept + read;
        let whole = split(&buffer[..filled], &mut each)?;
        buffer.copy_within(whole..filled, 0);
        kept = filled - whole;
    }
}

/// Calls `each` for every complete record. Returns the offset of the first incomplete record.
fn split(bytes: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<usize> {
    let mut left = bytes;
    while left.len() >= size_of::<u32>() {
        let length = decode::length(left).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "a snapshot contains bytes that are not a record")
        })?;
        let Some((record, behind)) = left.split_at_checked(length) else { break };
        each(record);
        left = behind;
    }
    Ok(bytes.len() - left.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi;

    #[test]
    fn records_of_several_lengths_are_split_and_the_last_may_be_incomplete() {
        let unchanged =
            |cookie| abi::mpw_unchanged { kind: abi::MPW_RECORD_UNCHANGED_CONNECTION, generation: 0, cookie };
        let subflow = abi::mpw_subflow { kind: abi::MPW_RECORD_SUBFLOW, ..bytemuck::Zeroable::zeroed() };
        let mut bytes = bytemuck::bytes_of(&unchanged(7)).to_vec();
        bytes.extend_from_slice(bytemuck::bytes_of(&subflow));
        bytes.extend_from_slice(bytemuck::bytes_of(&unchanged(8)));
        for cut in [0, 1, 3, 4, 15] {
            let mut lengths = Vec::new();
            let whole = split(&bytes[..bytes.len() - cut], &mut |record: &[u8]| lengths.push(record.len()));
            let expected = if cut == 0 { vec![16, SUBFLOW_BYTES, 16] } else { vec![16, SUBFLOW_BYTES] };
            assert_eq!((whole.unwrap(), lengths.clone()), (expected.iter().sum(), expected));
        }
        assert!(split(&[9, 0, 0, 0, 1], &mut |_: &[u8]| ()).is_err());
    }
}
