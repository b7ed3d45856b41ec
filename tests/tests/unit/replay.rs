// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays recordings of real runs. The text reports are snapshots in `snapshots` and must not change unintentionally. To add a case,
//! add a recording to `fixtures/events` and a line here.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mpwatch_tests::{list, mpwatch, number, program, text};
use serde_json::Value;

const CASES: &[&str] = &["two_paths", "failover", "requests", "fallback"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/events")
}

fn replay(case: &str, arguments: &[&str]) -> String {
    let file = folder().join(format!("{case}.mpw"));
    let outcome = mpwatch(&[&["replay", file.to_str().unwrap()], arguments].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{case}");
    outcome.stdout
}

/// Compares the report with its snapshot. The report has the version of the recorder, so it does not depend on the program's version.
fn assert_golden(case: &str) {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(format!("replay_{case}"), replay(case, &[]));
    });
}

#[test]
fn two_paths_carry_one_upload() {
    assert_golden("two_paths");
}

#[test]
fn the_other_path_takes_over_when_one_fails() {
    assert_golden("failover");
}

#[test]
fn requests_use_the_faster_path() {
    assert_golden("requests");
}

#[test]
fn a_server_without_mptcp_makes_the_client_fall_back() {
    assert_golden("fallback");
}

#[test]
fn every_recording_has_a_case() {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let recordings = entries.filter(|path| path.extension().is_some_and(|extension| extension == "mpw"));
    let found: BTreeSet<String> =
        recordings.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(found, CASES.iter().map(|case| (*case).to_owned()).collect());
}

#[test]
fn a_report_depends_only_on_the_recording() {
    for case in CASES {
        let usual = replay(case, &[]);
        let output = Command::new(program())
            .args(["replay", folder().join(format!("{case}.mpw")).to_str().unwrap()])
            .env_clear()
            .envs([("LC_ALL", "de_DE.UTF-8"), ("TZ", "Asia/Kathmandu"), ("COLUMNS", "40"), ("TERM", "dumb")])
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), usual, "{case}");
    }
}

#[test]
fn the_last_snapshot_of_a_connection_is_its_record_in_the_report() {
    for case in CASES {
        let report: Value = serde_json::from_str(&replay(case, &["--format", "json"])).unwrap();
        let lines = replay(case, &["--snapshots"]);
        let snapshots: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for connection in list(&report, "connections") {
            let mut all = snapshots.iter().rev().flat_map(|snapshot| list(snapshot, "connections"));
            let last = all
                .find(|candidate| candidate["id"] == connection["id"])
                .expect("the connection is in a snapshot");
            for field in ["bytes_sent", "bytes_received", "closed_at", "subflows", "timeline"] {
                assert_eq!(last[field], connection[field], "{case}: {field} of {}", text(connection, "id"));
            }
        }
        assert_eq!(number(&report["losses"], "records_lost"), 0);
    }
}

#[test]
fn a_filter_that_matches_nothing_is_not_an_empty_recording() {
    for arguments in [["--filter", "port:1"], ["--netns", "elsewhere"]] {
        let report = replay("two_paths", &arguments);
        let expected = "mpwatch: none of 2 connections matches the filter (--filter, --netns)\n";
        assert!(report.starts_with(expected), "{report}");
    }
}
