// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many short connections: none is missed, also where the buffer for their finals is far too small.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{self, Close, Outcome, Spec, Workload};
use mpwatch_lab::{Topology, mib};
use mpwatch_tests::{Observer, Report, list, may_run_as_root, number, pace, text};
use serde_json::Value;

const BYTES: u64 = 1_000;

/// A thousand, or enough to see something on a slow machine.
fn connections() -> u32 {
    u32::try_from(pace::amount(1_000).max(100)).unwrap()
}

#[test]
fn a_thousand_short_connections_are_all_there_with_open_close_and_finals() {
    if !may_run_as_root() {
        return;
    }
    let (topology, before) = lab();
    let observer = Observer::start(&[]);
    let outcome = churn(&topology, connections());
    let report = observer.finish_when_quiet(&topology);

    let after = mib::difference(&before, &mib::read(topology.client()).unwrap());
    let clients = report.connections_in(topology.client().name());
    assert_eq!(
        clients.len() as u64,
        after["MPTcpExtMPCapableSYNTX"],
        "connections against the kernel's counter"
    );
    let joined = clients.iter().flat_map(|c| list(c, "subflows")).filter(|s| s["initial"] == false).count();
    // Kernels before 6.13 do not count the joins that a client asks for.
    if let Some(&asked) = after.get("MPTcpExtMPJoinSynTx") {
        assert_eq!(joined as u64, asked, "joins against the kernel's counter");
    }
    println!("{} connections, {joined} joined subflows", clients.len());
    assert!(joined > connections() as usize / 2, "most live long enough to be joined, not {joined}");
    complete(&report, &topology, &outcome);
    let losses = &report.json["losses"];
    for loss in ["records_lost", "vanished", "decode_errors", "storage_failed"] {
        assert_eq!(number(losses, loss), 0, "{losses}");
    }
}

#[test]
fn finals_that_do_not_fit_a_tiny_ring_come_by_the_overflow_and_nothing_is_lost() {
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let observer = Observer::start(&["--ring-size", "4K"]);
    let outcome = churn(&topology, connections());
    let report = observer.finish_when_quiet(&topology);
    let losses = &report.json["losses"];
    println!("{losses}");
    complete(&report, &topology, &outcome);
    assert!(number(losses, "ring_full_recovered") > 0, "4 KiB hold three records: {losses}");
    assert_eq!((number(losses, "records_lost"), number(losses, "vanished")), (0, 0), "{losses}");
}

#[test]
fn what_is_lost_for_good_is_counted_exactly_and_host_totals_stay_right() {
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let observer = Observer::start(&["--ring-size", "4K", "--overflow-size", "4K"]);
    let outcome = churn(&topology, 4 * connections());
    let report = observer.finish_when_quiet(&topology);
    let losses = &report.json["losses"];
    println!("{losses}");
    let lost = number(losses, "records_lost");
    assert!(lost > 0, "two rings of 4 KiB cannot hold this: {losses}");

    let (sent, received) =
        (&report.json["counters"]["records"], &report.json["counters"]["records_received"]);
    assert_eq!(sent.as_u64().unwrap() - received.as_u64().unwrap(), lost, "{sent} sent, {received} received");

    // Payload of the clients' subflows that ended for a known reason, plus that of the lost records, is what was sent.
    let known = |subflow: &&Value| subflow["closed"].is_object() && subflow["closed"]["reason"] != "unknown";
    let told: u64 = report
        .connections_in(topology.client().name())
        .iter()
        .flat_map(|c| list(c, "subflows"))
        .filter(known)
        .map(|s| number(s, "bytes_sent") - number(s, "bytes_retransmitted"))
        .sum();
    let missing = number(losses, "lost_bytes_sent");
    let sent = outcome.client.sent();
    assert!(told + missing >= sent, "{told} + {missing} for {sent}");
    // Losses are of the whole machine. A few of ours were sampled between their close and their destruction: those are told although
    // their record was lost.
    let ours = [topology.client().name(), topology.server().name()];
    let is_alone = list(&report.json, "connections").iter().all(|c| ours.contains(&text(c, "netns")));
    assert!(!is_alone || told + missing < sent + sent / 100, "{told} + {missing} for {sent}");
}

/// The kernel takes the token back before it closes the socket of a connection that the peer aborts (MP_FASTCLOSE).
#[test]
fn aborted_connections_keep_their_tokens_at_both_ends() {
    if !may_run_as_root() {
        return;
    }
    let (topology, _) = lab();
    let observer = Observer::start(&[]);
    let mut spec = Spec::new(topology.path(0).unwrap().server_address(), Workload::upload(BYTES));
    (spec.connections, spec.concurrency, spec.close) = (50, 1, Close::Abort);
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_when_quiet(&topology);
    let tokens = |namespace: &str, field: &str| -> HashSet<String> {
        report.connections_in(namespace).iter().map(|connection| text(connection, field).to_owned()).collect()
    };
    let (client, server) = (topology.client().name(), topology.server().name());
    assert_eq!(tokens(client, "token").len(), 50);
    assert_eq!(tokens(client, "token"), tokens(server, "remote_token"));
    assert_eq!(tokens(server, "token"), tokens(client, "remote_token"));
}

fn lab() -> (Topology, BTreeMap<String, u64>) {
    let topology = Topology::two_paths(Quality::default(), Quality::default()).unwrap();
    let before = mib::read(topology.client()).unwrap();
    (topology, before)
}

fn churn(topology: &Topology, connections: u32) -> Outcome {
    let workload = Workload::Linger {
        bytes: BYTES,
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(500),
    };
    let mut spec = Spec::new(topology.path(0).unwrap().server_address(), workload);
    (spec.connections, spec.concurrency) = (connections, 64);
    spec.account = false;
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    assert_eq!(outcome.client.first_error(), None);
    assert_eq!(outcome.client.sent(), u64::from(connections) * BYTES);
    outcome
}

/// Every connection of both ends: once, opened, closed, and with the application's bytes.
fn complete(report: &Report, topology: &Topology, outcome: &Outcome) {
    let expected = outcome.client.connections.len();
    for (namespace, field) in [(topology.client(), "bytes_sent"), (topology.server(), "bytes_received")] {
        let connections = report.connections_in(namespace.name());
        assert_eq!(connections.len(), expected, "in {}", namespace.name());
        let ids: HashSet<&str> = connections.iter().map(|connection| text(connection, "id")).collect();
        assert_eq!(ids.len(), expected, "an id stands for one connection");
        for connection in connections {
            assert_eq!(number(connection, field), BYTES, "{connection:#}");
            assert_eq!(connection["seen_open"], true, "{connection:#}");
            assert!(connection["closed_at"].is_string(), "{connection:#}");
            for subflow in list(connection, "subflows") {
                assert!(subflow["created_at"].is_string() && subflow["closed"].is_object(), "{subflow:#}");
            }
        }
    }
}
