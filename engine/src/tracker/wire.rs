// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the wire bytes of a subflow from its record.

use mpwatch_model::flow::wire::{Segments, wire_bytes};
use mpwatch_model::kernel::event::SubflowRecord;
use mpwatch_model::unit::Bytes;

/// Bytes sent and received on the wire since the subflow was opened, with headers.
pub(super) fn estimate(record: &SubflowRecord) -> [Bytes; 2] {
    let tcp = &record.tcp;
    let wire = |payload, segments| {
        wire_bytes(payload, segments, record.remote.ip(), record.tcp_header.into(), record.msk.is_some())
    };
    let received = Segments { all: tcp.segments_in.into(), with_data: tcp.data_segments_in.into() };
    // The kernel also counts segments that a queue of this host refused or dropped; these are subtracted.
    let missing = (tcp.bytes_refused + tcp.bytes_dropped).0.checked_div(tcp.mss.into()).unwrap_or(0);
    let sent =
        [tcp.segments_out, tcp.data_segments_out].map(|counted| u64::from(counted).saturating_sub(missing));
    let sent = Segments { all: sent[0], with_data: sent[1] };
    [wire(tcp.bytes_sent.since(tcp.bytes_dropped), sent), wire(tcp.bytes_received, received)]
}
