// SPDX-License-Identifier: MIT OR Apache-2.0
//! How each number of a connection and of its subflows is merged if the runs do not overlap. A new field fails the test until it is listed.

use mpwatch_model::flow::subflow::Retransmits;
use serde_json::{Value, json};

use super::*;
use crate::write::merge::EarlierRecord;

/// How the values of two runs are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The later value: it describes the present, or only one run knows it.
    Later,
    /// The larger value: the kernel counts over the whole life, and clears some counters at the end.
    Max,
    /// The sum: mpwatch counts while it runs.
    Sum,
}
use Rule::{Later, Max, Sum};

type Rules = &'static [(Rule, &'static [&'static str])];

const CONNECTION: Rules = &[
    (Later, &["netns_inode", "process/pid", "receive_bps", "second_path/after_us", "send_bps"]),
    (
        Max,
        &[
            "bytes_acked",
            "bytes_received",
            "bytes_sent",
            "mptcp_bytes_retransmitted",
            "second_path/after_bytes",
            "second_path/effective_after_bytes",
        ],
    ),
    (
        Sum,
        &[
            "observed/active_ns",
            "observed/bytes",
            "observed/bytes_sent",
            "observed/duration_ns",
            "observed/wire_bytes_estimate",
        ],
    ),
];

const SUBFLOW: Rules = &[
    (
        Later,
        &[
            "cwnd_segments",
            "delivery_bps",
            "handshake_us",
            "joined_after_us",
            "local_id",
            "receive_bps",
            "remote_id",
            "rtt_min_us",
            "rtt_us",
            "rttvar_us",
            "send_bps",
            "srtt_us",
        ],
    ),
    (
        Max,
        &[
            "bytes_acked",
            "bytes_received",
            "bytes_retransmitted",
            "bytes_sent",
            "joined_after_bytes",
            "lost_segments",
            "segments_retransmitted",
            "timeouts",
            "wire_bytes_received_estimate",
            "wire_bytes_sent_estimate",
        ],
    ),
    (
        Sum,
        &[
            "busy_ns/receive_window",
            "busy_ns/send_buffer",
            "busy_ns/total",
            "bytes_refused",
            "cpu_ns/rx_softirq",
            "cpu_ns/syscall",
            "cpu_ns/timer",
            "cpu_ns/tx",
            "cpu_ns/worker",
            "observed/active_ns",
            "observed/bytes",
            "observed/bytes_sent",
            "observed/duration_ns",
            "observed/wire_bytes_estimate",
            "retransmits/fast",
            "retransmits/probe",
            "retransmits/timeout",
            "scheduler/considered",
            "scheduler/picked",
        ],
    ),
];

/// Numbers that are computed from other fields or have rules of their own, with their parts.
const CONNECTION_OTHERS: &[&str] = &[
    "active_goodput_bps",
    "age_s",
    "busy_ns",
    "bytes_reinjected",
    "bytes_retransmitted",
    "cpu_ns",
    "energy",
    "excess_ratio",
    "extra_subflows",
    "goodput_bps",
    "jain_index",
];
const SUBFLOW_OTHERS: &[&str] = &[
    "active_goodput_bps",
    "energy",
    "excess_ratio",
    "goodput_bps",
    "path_failures",
    "place",
    "rtt_p50_us",
    "rtt_p99_us",
    "rtt_samples",
    "share_sent",
];

/// The paths of all numbers in an object.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path.to_owned()),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| numbers(value, &format!("{path}/{name}"), found));
        }
        _ => {}
    }
}

/// The merged value at `path` of two runs with these values.
fn merged(path: &str, values: [u8; 2]) -> Value {
    let run = |value: u8| -> Connection {
        let mut flow = serde_json::to_value(fixture::connection(1, 2)).unwrap();
        *flow.pointer_mut(path).unwrap() = json!(value);
        serde_json::from_value(flow).unwrap()
    };
    let [earlier, later] = values.map(run);
    let (began_ns, until_ns) = (nanos(fixture::at(0)), nanos(fixture::at(1_000_000)));
    let earlier = EarlierRecord { connection: earlier, began_ns, until_ns, overlaps: false, runs: 1 };
    let (merged, _) = earlier.merge(&later, fixture::at(20_000_000));
    serde_json::to_value(merged).unwrap().pointer(path).unwrap().clone()
}

#[test]
fn each_number_is_merged_by_its_rule() {
    let flow = serde_json::to_value(fixture::connection(1, 2)).unwrap();
    let second = "/subflows/1";
    for (root, rules, others) in [("", CONNECTION, CONNECTION_OTHERS), (second, SUBFLOW, SUBFLOW_OTHERS)] {
        let mut found = Vec::new();
        numbers(flow.pointer(root).unwrap(), root, &mut found);
        for path in found {
            let name = &path[root.len() + 1..];
            if others.contains(&name.split('/').next().unwrap()) {
                continue;
            }
            let rule = rules.iter().find(|(_, names)| names.contains(&name)).map(|(rule, _)| *rule);
            let results = [merged(&path, [90, 50]), merged(&path, [50, 90])];
            let expected = match rule.unwrap_or_else(|| panic!("{path} has no rule")) {
                Later => [50, 90],
                Max => [90, 90],
                Sum => [140, 140],
            };
            assert_eq!(results, expected.map(|value| json!(value)), "{path}: {rule:?}");
        }
    }
}

#[test]
fn bytes_that_an_earlier_run_found_refused_were_not_sent() {
    let whole = fixture::connection(1, 2);
    let (sent, again) = (whole.subflows[0].bytes_sent, whole.subflows[0].bytes_retransmitted);
    let (mut earlier, mut later) = (whole.clone(), whole);
    earlier.subflows[0].bytes_refused = Bytes(1_000);
    // The later run does not know of these 1000 bytes, which the kernel counts as sent and retransmitted.
    let subflow = &mut later.subflows[0];
    subflow.bytes_refused = Bytes(200);
    subflow.bytes_sent = sent + Bytes(6_000);
    subflow.bytes_retransmitted = again + Bytes(1_500);
    let (began_ns, until_ns) = (nanos(fixture::at(0)), nanos(fixture::at(1_000_000)));
    let merged = |overlaps| {
        let connection = earlier.clone();
        let earlier = EarlierRecord { connection, began_ns, until_ns, overlaps, runs: 1 };
        let merged = earlier.merge(&later, fixture::at(20_000_000)).0.subflows.remove(0);
        [merged.bytes_refused, merged.bytes_sent, merged.bytes_retransmitted]
    };
    assert_eq!(merged(false), [Bytes(1_200), sent + Bytes(5_000), again + Bytes(500)]);
    assert_eq!(
        merged(true),
        [Bytes(1_000), sent + Bytes(6_000), again + Bytes(1_500)],
        "counted by both runs"
    );
}

#[test]
fn retransmissions_by_cause_are_counted_by_each_run() {
    let (_folder, file) = folder();
    let mut flow = fixture::connection(1, 1);
    for (second, timeout) in [(0, 2), (20, 19)] {
        flow.subflows[0].retransmits = Some(Retransmits { fast: 1, timeout, probe: 0 });
        super::runs::run(&file, second, vec![vec![flow.clone()], vec![flow.clone()]]);
    }
    let found = read(&file).0.connections.remove(0).subflows.remove(0).retransmits;
    assert_eq!(found, Some(Retransmits { fast: 2, timeout: 21, probe: 0 }));
}
