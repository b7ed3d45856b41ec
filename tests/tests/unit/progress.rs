// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of connections with one to three paths, several loads and incidents (`tests/progress/record.py`). The test compares the
//! report with `truth.tsv`: the kernel's timeouts in a row on each path, and the longest time in which the receiving program received
//! nothing.

use std::fs;
use std::path::{Path, PathBuf};

use mpwatch_model::flow::outage::{outages, path_failures};
use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Micros;
use mpwatch_tests::mpwatch;

/// Allowed difference between a stall and the program's gap. On a machine that records eight cells at a time, the program may read late by
/// up to one interval of the sender.
const TOLERANCE: Micros = Micros(250_000);
/// Shortest gap of the program that is an outage.
const MIN_OUTAGE: Micros = Micros(200_000);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/progress")
}

/// Compares the replay of a recording with the row of `truth.tsv`. Returns the differences.
fn differences(cell: &str, backoff: &str, gap: Micros) -> Vec<String> {
    let recording = folder().join(format!("{cell}.mpw"));
    let outcome = mpwatch(&["replay", recording.to_str().unwrap(), "--format", "json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{cell}");
    let report: Report = serde_json::from_str(&outcome.stdout).unwrap();
    let [connection] = &report.connections[..] else { panic!("{cell}: one connection") };
    let mut found = Vec::new();
    for (place, backoff) in backoff.split(',').enumerate() {
        let backoff: u8 = backoff.parse().unwrap();
        let prefix = format!("10.210.{}.", place + 1);
        let of_path =
            connection.subflows.iter().filter(|subflow| subflow.local.to_string().starts_with(&prefix));
        let failures: usize = of_path.map(|subflow| path_failures(connection, subflow).len()).sum();
        if failures != usize::from(backoff >= 3) {
            found.push(format!(
                "{cell}: path {}: {failures} failures, {backoff} timeouts in a row",
                place + 1
            ));
        }
    }
    let paths: Vec<&str> = cell.split('-').collect();
    let all_dead = matches!((paths[0], paths[2]), (_, "all") | ("1", "dead" | "long"));
    let is_undelivered = gap.0 > 3_000_000 && paths[2] != "pause";
    let outages = outages(connection);
    if (all_dead && paths[1] != "idle") || is_undelivered {
        let has_long = outages.iter().any(|outage| outage.duration.0 > 3_000_000);
        found.extend((!has_long).then(|| format!("{cell}: no outage")));
    } else {
        let stalls = connection.timeline.iter().filter_map(|entry| match entry.event {
            TimelineEvent::Stalled { gap, .. } => Some(gap),
            _ => None,
        });
        let longest = stalls.max().unwrap_or_default();
        if !outages.is_empty() && (gap < MIN_OUTAGE || longest.0 > gap.0 + TOLERANCE.0) {
            found.push(format!("{cell}: outages {outages:?}, the program waited for {gap:?}"));
        }
    }
    found
}

#[test]
fn reports_of_recorded_incidents_agree_with_the_kernel_and_the_program() {
    let truth = fs::read_to_string(folder().join("truth.tsv")).unwrap();
    let rows: Vec<Vec<&str>> = truth.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert!(rows.len() >= 60, "{}", rows.len());
    let gap = |text: &str| Micros(text.parse::<u64>().unwrap() * 1_000);
    let found: Vec<String> = rows.iter().flat_map(|row| differences(row[0], row[1], gap(row[2]))).collect();
    assert_eq!(found, Vec::<String>::new());
}
