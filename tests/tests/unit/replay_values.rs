// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every stored recording replays to the same values (fixtures/values). Keys may be added.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mpwatch_tests::mpwatch;
use serde_json::Value;

/// Keys that were removed on purpose: a verdict, and counters that cost a program run for every segment.
const REMOVED: &[&str] = &[
    "across",
    "mappings_sent",
    "mappings_received",
    "data_acks",
    "data_acked_bytes",
    "no_dss",
    "dummy",
    "stale",
];
/// Keys whose meaning changed: the rate of a connection is the sum of its subflows' rates, and ratios describe the observed part of a
/// connection. The interval of the first snapshot was 0, and is now unknown.
const REDEFINED: &[&str] = &["send_bps", "receive_bps", "j_per_gb", "excess_ratio", "interval_s"];
/// Keys whose value was corrected for closed connections: time after the close no longer counts.
const CORRECTED_AFTER_CLOSE: &[&str] = &["jain_index"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Paths of the stored recordings.
fn recordings() -> Vec<PathBuf> {
    let folders = ["events", "bottleneck", "caps"].map(|folder| fixtures().join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "mpw")).collect()
}

fn name(recording: &Path) -> &str {
    recording.file_stem().unwrap().to_str().unwrap()
}

fn replay(recording: &Path, arguments: &[&str]) -> String {
    let outcome = mpwatch(&[&["replay", recording.to_str().unwrap()], arguments].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{}", recording.display());
    outcome.stdout
}

fn is_removed(key: &str) -> bool {
    REMOVED.contains(&key) || REDEFINED.contains(&key)
}

/// Lists keys whose value is missing or different.
fn compare(path: &str, before: &Value, now: &Value, differences: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(_)) => {
            let is_corrected =
                |key: &str| now["closed_at"].is_string() && CORRECTED_AFTER_CLOSE.contains(&key);
            for (key, value) in before.iter().filter(|(key, _)| !is_removed(key) && !is_corrected(key)) {
                compare(&format!("{path}.{key}"), value, &now[key], differences);
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (index, (before, now)) in before.iter().zip(now).enumerate() {
                compare(&format!("{path}[{index}]"), before, now, differences);
            }
        }
        _ if before == now => {}
        _ => differences.push(format!("{path}: {before} is now {now}")),
    }
}

#[test]
fn reports_have_the_values_they_had() {
    let mut differences = Vec::new();
    for recording in recordings() {
        let stored =
            fs::read_to_string(fixtures().join(format!("values/{}.json", name(&recording)))).unwrap();
        let before = serde_json::from_str(&stored).unwrap();
        let now = serde_json::from_str(&replay(&recording, &["--format", "json"])).unwrap();
        compare(name(&recording), &before, &now, &mut differences);
    }
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn snapshots_have_the_values_they_had() {
    let mut differences = Vec::new();
    for recording in recordings() {
        let Ok(stored) = fs::read(fixtures().join(format!("values/{}.snapshots.zst", name(&recording))))
        else {
            continue;
        };
        let before = String::from_utf8(zstd::decode_all(stored.as_slice()).unwrap()).unwrap();
        let now = replay(&recording, &["--snapshots"]);
        assert_eq!(before.lines().count(), now.lines().count(), "{}", name(&recording));
        for (number, (before, now)) in before.lines().zip(now.lines()).enumerate() {
            let [before, now] = [before, now].map(|line| serde_json::from_str(line).unwrap());
            compare(&format!("{} snapshot {number}", name(&recording)), &before, &now, &mut differences);
        }
    }
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn a_value_that_differs_is_found() {
    let before = serde_json::json!({ "a": [1, { "b": 2 }], "c": null, "across": 1 });
    let mut differences = Vec::new();
    compare("", &before, &serde_json::json!({ "a": [1, { "b": 3 }], "c": 0, "new": 1 }), &mut differences);
    assert_eq!(differences, [".a[1].b: 2 is now 3", ".c: null is now 0"]);
}

/// Asserts bounds of derived values that hold for any traffic.
fn check_bounds(connection: &Value) {
    let subflows = connection["subflows"].as_array().unwrap();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let is_ratio = |value: &Value| value.as_f64().is_none_or(|ratio| (0.0..=1.0).contains(&ratio));
    for key in ["excess_ratio", "jain_index"] {
        assert!(is_ratio(&connection[key]), "{key}: {connection:#}");
    }
    let shares: Vec<f64> = subflows.iter().filter_map(|subflow| subflow["share_sent"].as_f64()).collect();
    assert!(shares.is_empty() || (shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{connection:#}");
    if subflows.len() < 2 {
        assert_eq!(connection["bytes_reinjected"].as_u64().unwrap_or(0), 0, "{connection:#}");
    }
    for subflow in subflows {
        assert!(number(&subflow["bytes_retransmitted"]) <= number(&subflow["bytes_sent"]), "{connection:#}");
        assert!(
            number(&subflow["wire_bytes_sent_estimate"]) >= number(&subflow["bytes_sent"]),
            "{connection:#}"
        );
    }
    let initial: Vec<&Value> = subflows.iter().filter(|subflow| subflow["initial"] == true).collect();
    assert!(initial.len() < 2, "{connection:#}");
    if let Some(first) = initial.first() {
        assert_eq!((&connection["local"], &connection["remote"]), (&first["local"], &first["remote"]));
    }
}

/// Asserts that the goodput over the period is at most the goodput while a connection was open, which is a part of the period.
fn check_goodput(report: &Value) {
    let [over_period, while_open] = ["goodput_bps", "open_goodput_bps"].map(|key| report[key].as_f64());
    let is_empty = report["connections"].as_array().unwrap().is_empty();
    assert_eq!(over_period.is_none(), is_empty, "{}", report["run"]);
    assert!(over_period <= while_open, "{over_period:?} {while_open:?}");
}

#[test]
fn derived_values_keep_their_bounds() {
    for recording in recordings() {
        let report: Value = serde_json::from_str(&replay(&recording, &["--format", "json"])).unwrap();
        let connections = report["connections"].as_array().unwrap();
        connections.iter().for_each(check_bounds);
        check_goodput(&report);
        let ids: BTreeSet<&str> =
            connections.iter().filter_map(|connection| connection["id"].as_str()).collect();
        assert_eq!(ids.len(), connections.len(), "ids are unique in {}", recording.display());
    }
}
