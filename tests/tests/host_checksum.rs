// SPDX-License-Identifier: MIT OR Apache-2.0
//! The path changes payload of the only subflow and corrects TCP's checksum. MPTCP's own checksum reveals the change, and the connection
//! falls back with an infinite mapping (RFC 8684 section 3.7). The kernel's MIB counters confirm both.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "checksum/upload.rs"]
mod upload;

use mpwatch_lab::traffic::Workload;
use mpwatch_tests::{list, may_run_as_root, number, text};

use upload::{closed, counted, upload};

/// The receiver delivers the changed payload, because there is no other subflow to retransmit it.
#[test]
fn a_wrong_checksum_on_the_only_subflow_is_a_fallback_after_the_handshake() {
    if !may_run_as_root() {
        return;
    }
    let (lab, outcome, report) = upload(1, Workload::upload(2_000_000));
    assert_eq!(counted(&lab, "DataCsumErr"), [0, 1], "the receiver finds the wrong checksum");
    assert!(counted(&lab, "MPFailTx")[1] > 0 && counted(&lab, "MPFailRx")[0] > 0);
    assert_eq!((counted(&lab, "InfiniteMapTx")[0], counted(&lab, "InfiniteMapRx")[1]), (1, 1));
    let (sender, receiver) = (&outcome.client.connections[0], &outcome.server.connections[0]);
    assert_eq!(sender.sent, receiver.received);
    assert_ne!(sender.sent_hash, receiver.received_hash, "the changed payload was delivered");
    for (end, field) in [(lab.client(), "bytes_sent"), (lab.server(), "bytes_received")] {
        let connection = report.only_connection_in(end.name());
        assert_eq!(text(&connection["fallback"], "reason"), "after_handshake", "{connection:#}");
        assert_eq!(number(connection, field), sender.sent, "{connection:#}");
        assert_eq!(number(connection, "bytes_reinjected"), 0, "{connection:#}");
        let ends: Vec<_> = list(connection, "subflows").iter().map(closed).collect();
        assert_eq!(ends, ["fin"], "{connection:#}");
    }
}
