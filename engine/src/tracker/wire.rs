// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the wire bytes of a subflow from its record.

use mpwatch_model::flow::wire::{Segments, wire_bytes};
use mpwatch_model::kernel::event::{SubflowRecord, TcpCounters};
use mpwatch_model::unit::Bytes;

/// Bytes sent and received on the wire since the subflow was opened, with headers.
pub(super) fn estimate(record: &SubflowRecord) -> [Bytes; 2] {
    let tcp = &record.tcp;
    let wire = |payload, segments| {
        wire_bytes(payload, segments, record.remote.ip(), record.tcp_header.into(), record.msk.is_some())
    };
    let received = Segments { all: tcp.segments_in.into(), with_data: tcp.data_segments_in.into() };
    let sent = tcp.bytes_sent.since(tcp.bytes_dropped);
    [wire(sent, sent_segments(tcp)), wire(tcp.bytes_received, received)]
}

/// Segments sent. The kernel also counts segments that a queue of this host refused or dropped; these are subtracted.
fn sent_segments(tcp: &TcpCounters) -> Segments {
    let missing = (tcp.bytes_refused + tcp.bytes_dropped).0.checked_div(tcp.mss.into()).unwrap_or(0);
    let sent = |counted: u32| u64::from(counted).saturating_sub(missing);
    Segments { all: sent(tcp.segments_out), with_data: sent(tcp.data_segments_out) }
}
