// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emulated data-centre networks, and `mpwatch study` on these networks and with real programs. The tests run on the host only, because
//! they need Debian packages, and hash functions per namespace (Linux 6.11).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mpwatch_lab::traffic::{self, TrafficSpec, Transport, Workload};
use mpwatch_study::fabric::{Fabric, FabricKind, FabricSpec, Forwarding, address};
use mpwatch_tests::{list, may_run_as_root, number, output, program, skip, text};
use serde_json::Value;

const BYTES: u64 = 2_000_000;
/// Index of the peer of the first host. In all networks, packets between these two hosts pass through a core switch.
const FAR: usize = 10;

fn fabric(kind: FabricKind, forwarding: Forwarding, subflows: usize) -> FabricSpec {
    FabricSpec { kind, mbit: 50.0, queue: Duration::from_millis(20), subflows, forwarding }
}

/// Whether this machine can run these tests. Otherwise prints SKIP.
fn may_build() -> bool {
    if !may_run_as_root() {
        return false;
    }
    if !Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists() {
        skip("this kernel has no hash functions per namespace (Linux 6.11)");
        return false;
    }
    true
}

/// Uploads from the first host to a distant one. Returns the share of each core switch in all bytes.
fn upload(spec: &FabricSpec, transport: Transport) -> Vec<f64> {
    let fabric = Fabric::build(spec, 1).unwrap();
    let mut traffic = TrafficSpec::new(address(FAR, 0), Workload::upload(BYTES));
    (traffic.client, traffic.transport) = (Some(address(0, 0)), transport);
    let outcome = traffic::run(fabric.host(0).unwrap(), fabric.host(FAR).unwrap(), &traffic).unwrap();
    assert_eq!((outcome.client.first_error(), outcome.server.first_error()), (None, None));
    let [client, server] = [&outcome.client.connections[0], &outcome.server.connections[0]];
    assert_eq!((client.sent, client.sent_hash), (server.received, server.received_hash));
    let core = fabric.core_bytes().unwrap();
    let all: u64 = core.iter().sum();
    assert!(all > BYTES, "{core:?}");
    core.iter().map(|bytes| *bytes as f64 / all as f64).collect()
}

#[test]
fn a_flow_takes_one_path_and_sprayed_packets_take_all() {
    if !may_build() {
        return;
    }
    let largest = |shares: &[f64]| shares.iter().copied().fold(0.0, f64::max);
    let hashed = upload(&fabric(FabricKind::FatTree, Forwarding::PerFlow, 1), Transport::Tcp);
    // Acknowledgements return on a path of their own.
    assert!(hashed.len() == 4 && largest(&hashed) > 0.85, "{hashed:?}");
    let sprayed = upload(&fabric(FabricKind::FatTree, Forwarding::PerPacket, 1), Transport::Tcp);
    assert!(sprayed.iter().all(|share| *share > 0.15), "{sprayed:?}");
}

#[test]
fn all_bytes_arrive_over_the_subflows_of_each_network() {
    if !may_build() {
        return;
    }
    for kind in [FabricKind::FatTree, FabricKind::Vl2, FabricKind::BCube] {
        let shares = upload(&fabric(kind, Forwarding::PerFlow, 8), Transport::Mptcp);
        let used = shares.iter().filter(|share| **share > 0.02).count();
        assert!(used >= 2, "{kind:?}: eight subflows, {shares:?}");
    }
}

fn run(experiment: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let arguments = ["study", "run", experiment, "--quick", "--repeat", "1", "--out", out];
    let output = output(Command::new(program()).args(arguments));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&std::fs::read_to_string(folder.path().join("study.json")).unwrap()).unwrap()
}

/// Asserts that every cell ran and has these quantities.
fn assert_measured(study: &Value, quantities: &[&str]) {
    for cell in list(&list(study, "experiments")[0], "cells") {
        assert_eq!(number(cell, "runs"), 1, "{cell:#}");
        let found: Vec<&str> =
            list(cell, "measured").iter().map(|measured| text(measured, "quantity")).collect();
        for quantity in quantities {
            assert!(found.contains(quantity), "{quantity} of {cell:#}");
        }
    }
}

#[test]
fn the_fat_tree_is_measured_with_both_ways_of_forwarding() {
    if may_build() {
        assert_measured(&run("fat-tree"), &["completion_s", "goodput_bps", "throughput_bps", "core_use"]);
    }
}

#[test]
fn every_method_of_detection_judges_the_same_run() {
    if may_run_as_root() {
        let study = run("detection");
        assert_measured(&study, &["found_ratio", "falsely_closed_ratio"]);
        let cells = list(&list(&study, "experiments")[0], "cells");
        let methods: Vec<&str> = cells.iter().map(|cell| text(&list(cell, "factors")[1], "value")).collect();
        assert_eq!(methods, ["concordance", "ese", "rfc8382", "dcw", "dwc"]);
        let found = |cell: &Value| {
            let found = list(cell, "measured")
                .iter()
                .find(|measured| text(measured, "quantity") == "found_ratio")
                .unwrap();
            found["mean"].as_f64().unwrap()
        };
        assert!(found(&cells[0]) >= 0.6, "five connections with an extra subflow on each path: {study:#}");
    }
}

#[test]
fn real_programs_run_over_both_protocols() {
    if may_run_as_root() {
        let study = run("applications");
        assert_measured(&study, &["completion_s", "cpu_s"]);
        let experiment = &list(&study, "experiments")[0];
        let has_requests = |cell: &&Value| {
            list(cell, "measured").iter().any(|measured| text(measured, "quantity") == "requests_per_s")
        };
        assert_eq!(list(experiment, "cells").iter().filter(has_requests).count(), 2, "redis, both protocols");
    }
}
