// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes batches of RTT samples, the only records of variable length.

use std::mem::offset_of;

use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::kernel::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::{Micros, Nanos};

use crate::abi;

/// Length of a batch without its samples.
const HEAD: usize = offset_of!(abi::mpw_sample_batch, samples);

/// Length of the batch at the start of these bytes. `None`: too few bytes, or more samples than a batch can hold.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let count = bytes.get(offset_of!(abi::mpw_sample_batch, count)..HEAD)?;
    let count = u32::from_ne_bytes(*count.first_chunk::<4>()?);
    (count <= abi::MPW_BATCH_SAMPLES).then(|| HEAD + count as usize * size_of::<abi::mpw_delay_sample>())
}

pub(super) fn batch(bytes: &[u8]) -> Option<SampleBatch> {
    if length(bytes)? != bytes.len() {
        return None;
    }
    let mut raw = abi::mpw_sample_batch::default();
    bytemuck::bytes_of_mut(&mut raw)[..bytes.len()].copy_from_slice(bytes);
    let abi::mpw_sample_batch { kind: _, generation, cookie, boot_offset_ns, count, _reserved, samples } =
        raw;
    let sample = |raw| {
        let abi::mpw_delay_sample { at_us, rtt_us, delivered, lost, cut } = raw;
        let at = Nanos(at_us.wrapping_mul(1_000).wrapping_add(boot_offset_ns));
        DelaySample { at, rtt: Micros(rtt_us.into()), delivered, lost, cut: cut != 0 }
    };
    Some(SampleBatch {
        id: SubflowId { cookie: SocketCookie(cookie), generation },
        samples: samples.into_iter().take(count as usize).map(sample).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_used_samples_of_a_batch_are_decoded_with_times_of_the_boot_clock() {
        let mut raw = abi::mpw_sample_batch {
            kind: abi::MPW_RECORD_SAMPLE_BATCH,
            cookie: 9,
            count: 1,
            boot_offset_ns: 500,
            ..Default::default()
        };
        raw.samples[0] = abi::mpw_delay_sample { at_us: 3, rtt_us: 20, delivered: 7, lost: 1, cut: 1 };
        let decoded = |raw: &abi::mpw_sample_batch, samples: u32| {
            let length = HEAD + samples as usize * size_of::<abi::mpw_delay_sample>();
            batch(&bytemuck::bytes_of(raw)[..length])
        };
        let found = decoded(&raw, 1).unwrap();
        let sample = DelaySample { at: Nanos(3_500), rtt: Micros(20), delivered: 7, lost: 1, cut: true };
        assert_eq!((found.id.cookie, found.samples), (SocketCookie(9), vec![sample]));
        assert!(decoded(&raw, 0).is_none() && decoded(&raw, 2).is_none(), "the batch has one sample");
        assert!(batch(&bytemuck::bytes_of(&raw)[..HEAD - 1]).is_none());
        for count in [abi::MPW_BATCH_SAMPLES + 1, u32::MAX] {
            raw.count = count;
            assert!(decoded(&raw, abi::MPW_BATCH_SAMPLES).is_none(), "{count} samples");
        }
    }
}
