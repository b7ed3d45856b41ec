// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path changes payload and corrects TCP's checksum. MPTCP's own checksum reveals the change, and the subflow is reset (RFC 8684 section
//! 3.7). The kernel's MIB counters confirm both.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "checksum/upload.rs"]
mod upload;

use mpwatch_lab::traffic::Workload;
use mpwatch_tests::{list, may_run_as_root, number};

use upload::{closed, counted, upload};

#[test]
fn a_wrong_checksum_on_one_of_two_subflows_resets_that_one_only() {
    if !may_run_as_root() {
        return;
    }
    let (lab, outcome, report) = upload(2, Workload::upload(2_000_000));
    assert_eq!(counted(&lab, "DataCsumErr"), [0, 1]);
    assert_eq!(counted(&lab, "MPFailTx")[1], 1);
    let resets = counted(&lab, "MPRstTx")[1];
    let (sender, receiver) = (&outcome.client.connections[0], &outcome.server.connections[0]);
    assert_eq!(sender.sent, receiver.received);
    assert_eq!(sender.sent_hash, receiver.received_hash, "the changed payload was not delivered");
    for (end, field, reset) in
        [(lab.client(), "bytes_sent", "reset_received"), (lab.server(), "bytes_received", "reset_sent")]
    {
        let connection = report.only_connection_in(end.name());
        assert!(connection["fallback"].is_null(), "{connection:#}");
        assert_eq!(number(connection, field), sender.sent, "{connection:#}");
        let ends: Vec<_> = list(connection, "subflows")
            .iter()
            .map(|s| (s["initial"].as_bool().unwrap(), closed(s)))
            .collect();
        assert_eq!(ends, [(true, "fin"), (false, reset)], "{connection:#}");
        let of_reset = ends.iter().filter(|(_, reason)| *reason == reset).count() as u64;
        assert_eq!(of_reset, resets, "resets against the kernel's counter");
    }
}
