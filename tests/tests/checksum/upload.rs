// SPDX-License-Identifier: MIT OR Apache-2.0
//! An upload over paths of which the last one changes the payload of a segment and corrects TCP's checksum.

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TransferOutcome, Workload};
use mpwatch_lab::{Direction, Namespace, Topology, mib};
use mpwatch_tests::{Observer, Report, text};
use serde_json::Value;

/// Number of the segment whose payload is changed.
const CHANGED: u32 = 100;

/// Runs the upload and mpwatch over this number of paths.
pub(crate) fn upload(paths: usize, workload: Workload) -> (Topology, TransferOutcome, Report) {
    let link = LinkSpec::rate(40.0, Duration::from_millis(50)).rtt(Duration::from_millis(5));
    let mut links = vec![link; paths];
    links[paths - 1] = link.corrupt_nth(CHANGED);
    let lab = Topology::disjoint(&links).unwrap();
    for end in [lab.client(), lab.server()] {
        end.sysctl("net.mptcp.checksum_enabled", "1").unwrap();
        if paths == 1 {
            use_small_segments(end);
        }
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

/// After a fallback, the kernel leaves no room for MPTCP's option, but a segment with an infinite mapping has this option. A full segment
/// then exceeds the MTU and is never sent, and the connection stalls permanently (observed on 6.18).
fn use_small_segments(end: &Namespace) {
    for (name, value) in [("mtu_probing", "2"), ("base_mss", "1200"), ("probe_threshold", "1000")] {
        end.sysctl(&format!("net.ipv4.tcp_{name}"), value).unwrap();
    }
}

/// One counter of a client and of a server.
pub(crate) fn counted(lab: &Topology, name: &str) -> [u64; 2] {
    [lab.client(), lab.server()]
        .map(|end| mib::read(end).unwrap().get(&format!("MPTcpExt{name}")).copied().unwrap_or(0))
}

pub(crate) fn closed(subflow: &Value) -> &str {
    text(&subflow["closed"], "reason")
}
