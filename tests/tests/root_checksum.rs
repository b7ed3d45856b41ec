// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payload that is changed on the way, with TCP's checksum corrected: MPTCP's own checksum shows it, and the subflow is reset (RFC 8684
//! section 3.7). Compared with the kernel's MIB counters.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TransferOutcome, Workload};
use mpwatch_lab::{Direction, Topology, mib};
use mpwatch_tests::{Observer, Report, list, may_run_as_root, number, text};
use serde_json::Value;

/// Which segment with payload is changed.
const CHANGED: u32 = 100;

/// An upload over paths of which the last one changes payload.
fn upload(paths: usize, workload: Workload) -> (Topology, TransferOutcome, Report) {
    let link = LinkSpec::rate(40.0, Duration::from_millis(50)).rtt(Duration::from_millis(5));
    let mut links = vec![link; paths];
    links[paths - 1] = link.corrupt_nth(CHANGED);
    let lab = Topology::disjoint(&links).unwrap();
    for end in [lab.client(), lab.server()] {
        end.sysctl("net.mptcp.checksum_enabled", "1").unwrap();
    }
    let observer = Observer::start(&[]);
    let outcome = {
        let spec = lab.traffic(workload).unwrap();
        traffic::run(lab.client(), lab.server(), &spec).unwrap()
    };
    for end in [lab.client(), lab.server()] {
        let counters = mib::read(end).unwrap();
        let of_mptcp = counters.iter().filter(|(name, value)| name.starts_with("MPTcpExt") && **value > 0);
        println!("{}: {:?}", end.name(), of_mptcp.collect::<Vec<_>>());
    }
    let report = observer.finish_after_close(&lab);
    let path = lab.path(paths - 1).unwrap();
    let corrupted = path.impairer().unwrap().counters(Direction::Forward).unwrap().corrupted;
    assert_eq!(corrupted, 1, "a segment was changed");
    (lab, outcome, report)
}

/// One counter of a client and of a server.
fn counted(lab: &Topology, name: &str) -> [u64; 2] {
    [lab.client(), lab.server()]
        .map(|end| mib::read(end).unwrap().get(&format!("MPTcpExt{name}")).copied().unwrap_or(0))
}

fn closed(subflow: &Value) -> &str {
    text(&subflow["closed"], "reason")
}

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
