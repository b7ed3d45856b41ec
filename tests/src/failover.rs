// SPDX-License-Identifier: MIT OR Apache-2.0
//! A transfer whose first path fails halfway, for tests of mpwatch's report.

use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::{LinkSpec, PathFailure, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};

/// Timeout of the first half.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Payload of [`upload`].
pub const BYTES: u64 = 6_000_000;

/// Two paths on which [`upload`] lasts about a second. The kernel soon gives up a path that has failed.
pub fn two_paths() -> Topology {
    let link = |rtt| LinkSpec::rate(30.0, Duration::from_millis(50)).rtt(Duration::from_millis(rtt));
    let paths = [10, 20].map(|rtt| PathSpec { link: link(rtt), ..PathSpec::default() }).to_vec();
    Topology::build(&TopologySpec { paths, quick_timeouts: true, ..TopologySpec::default() }).unwrap()
}

/// An upload over two paths. The first one fails halfway and does not recover.
pub fn upload(lab: &Topology, failure: PathFailure) {
    let control = Arc::new(Control::default());
    let spec = lab.traffic(Workload::upload(BYTES)).unwrap();
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let half = || (control.received() > BYTES / 2).then_some(());
    poll_until("half of the payload to arrive", TIMEOUT, half).unwrap();
    lab.path(0).unwrap().fail(failure).unwrap();
    let outcome = transfer.join().unwrap();
    assert_eq!((outcome.client.first_error(), outcome.server.received()), (None, BYTES));
}
