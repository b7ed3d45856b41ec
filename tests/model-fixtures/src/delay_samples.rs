// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delay samples made by hand, and the batches in which the kernel sends them.

use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::kernel::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::{Micros, Nanos};

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// The id of a subflow with this number.
pub fn id(number: u64) -> SubflowId {
    SubflowId { cookie: SocketCookie(number), generation: 0 }
}

/// A sample `at_ms` milliseconds after the first second of the clock.
pub fn sample(at_ms: u64, rtt_us: u64, delivered: u32) -> DelaySample {
    let at = Nanos(SECOND + at_ms * 1_000_000);
    DelaySample { at, rtt: Micros(rtt_us), delivered, ..DelaySample::default() }
}

/// The samples of subflows 1, 2 and so on as the kernel sends them: in batches of 32, in order of time.
pub fn batches(rows: &[Vec<DelaySample>]) -> Vec<SampleBatch> {
    batches_of(32, rows)
}

/// The same as [`batches`], in batches of this size.
pub fn batches_of(size: usize, rows: &[Vec<DelaySample>]) -> Vec<SampleBatch> {
    let of = |(number, row): (u64, &Vec<DelaySample>)| {
        let batch = move |samples: &[DelaySample]| SampleBatch { id: id(number), samples: samples.to_vec() };
        row.chunks(size).map(batch).collect::<Vec<_>>()
    };
    let mut all: Vec<SampleBatch> = (1..).zip(rows).flat_map(of).collect();
    all.sort_by_key(|batch| batch.samples.last().map(|sample| sample.at));
    all
}
