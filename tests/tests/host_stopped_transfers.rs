// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bulk transfer ends, also on a machine that tracing slows down. On Linux 6.18 some transfers do not end
//! (docs/measurements/robustness.md), so the test is ignored by default.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::time::Duration;

use mpwatch_bench::energy::processes::{self, Ends};
use mpwatch_lab::Topology;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{TrafficSpec, Transport, Workload};
use mpwatch_tests::{Observer, may_run_as_root};

const LENGTH: Duration = Duration::from_secs(3);
/// A transfer that takes longer has stopped.
const TIMEOUT: Duration = Duration::from_secs(12);

/// The traffic runs in separate processes of this program.
#[test]
fn child_process() {
    processes::run_as_child();
}

fn start(lab: &Topology, workload: Workload, transport: Transport, cpu: usize) -> Ends {
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), workload);
    (spec.transport, spec.read_socket_info) = (transport, false);
    (spec.cpus, spec.timeout) = (Some([cpu, cpu]), TIMEOUT);
    Ends::start(lab, &spec)
}

/// Runs MPTCP with both ends on one CPU, in parallel with TCP requests on the other CPU. Returns whether the transfer ended.
fn ends(ledger: &str) -> bool {
    let [bulk, other] = [2, 1].map(|paths| Topology::disjoint(&vec![LinkSpec::default(); paths]).unwrap());
    let observer = (ledger != "none").then(|| Observer::start(&["--ledger", ledger]));
    let requests = Workload::Requests {
        count: u64::MAX,
        request_bytes: 64,
        response_bytes: 64,
        think_time: Duration::ZERO,
    };
    let _plain_tcp = start(&other, requests, Transport::Tcp, 1);
    let bulk = start(&bulk, Workload::upload_for(LENGTH), Transport::Mptcp, 0);
    let ended = bulk.wait().is_ok();
    if let Some(observer) = observer {
        observer.finish();
    }
    ended
}

#[test]
#[ignore = "MPWATCH_TEST_RUNS runs, 10 by default, with the ledger MPWATCH_TEST_LEDGER: none (no tracing), off, sampled (default) or exact"]
fn a_transfer_ends_in_parallel_to_plain_tcp() {
    if !may_run_as_root() {
        return;
    }
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let ledger = setting("MPWATCH_TEST_LEDGER", "sampled");
    let runs: u32 = setting("MPWATCH_TEST_RUNS", "10").parse().expect("a number");
    let stopped = (0..runs).filter(|_| !ends(&ledger)).count();
    println!("{ledger}: {stopped} of {runs} transfers stopped");
    assert_eq!(stopped, 0);
}
