// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch compare` on recordings and on the databases made from them. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use mpwatch_tests::{CommandOutput, mpwatch};
use serde_json::Value;
use tempfile::TempDir;

const TWO_PATHS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/events/two_paths.mpw");
const REQUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/events/requests.mpw");
const FALLBACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/events/fallback.mpw");

#[track_caller]
fn assert_fails(outcome: &CommandOutput, code: i32, words: &[&str]) {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "`{word}` is not in: {}", outcome.stderr);
    }
}

/// The rows of a comparison.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let outcome = mpwatch(&[&["compare", "--format", "json"], arguments].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let found: Value = serde_json::from_str(&outcome.stdout).unwrap();
    found["rows"].as_array().unwrap().clone()
}

fn database(folder: &TempDir, recording: &str) -> String {
    let path = folder.path().join("flows.db").display().to_string();
    let outcome = mpwatch(&["replay", recording, "--db", &path]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    path
}

#[test]
fn a_recording_and_the_database_made_from_it_show_no_difference() {
    let folder = TempDir::new().unwrap();
    let database = database(&folder, REQUESTS);
    let rows = rows(&[REQUESTS, &database]);
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["a"], row["b"], "{row}");
        assert_eq!(row["a_connections"], row["b_connections"]);
        if let Some(difference) = row["difference"].as_object() {
            let [low, high] = ["low", "high"].map(|end| difference[end].as_f64().unwrap());
            assert!(low <= 0.0 && high >= 0.0, "{row}");
        }
    }
}

#[test]
fn text_and_html_have_the_medians_and_a_sentence_for_each_row() {
    let folder = TempDir::new().unwrap();
    let text = mpwatch(&["compare", REQUESTS, TWO_PATHS]).stdout;
    assert!(text.contains("\nA: ") && text.contains("\nB: ") && text.contains("95 % interval"), "{text}");
    assert!(text.contains("too few connections to compare: "), "{text}");
    // The answer comes first. A class without a comparison has only a sentence.
    assert_eq!(text.lines().nth(1), Some("  no quantity shows a difference"), "{text}");
    assert!(text.matches("too few connections to compare: ").count() <= 3, "{text}");
    let page = folder.path().join("page.html");
    let outcome =
        mpwatch(&["compare", REQUESTS, TWO_PATHS, "--format", "html", "-o", page.to_str().unwrap()]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{outcome:?}");
    let page = std::fs::read_to_string(page).unwrap();
    for outside in ["http://", "https://", "<script", "<link", "<img"] {
        assert!(!page.contains(outside), "{outside} is in the page");
    }
    assert!(page.contains("too few connections to compare: "));
}

#[test]
fn parts_of_a_file_are_compared_by_time() {
    let [early, late] = ["2000-01-01", "2100-01-01"].map(|at| mpwatch(&["compare", REQUESTS, "--split", at]));
    assert_fails(&early, 1, &["A (opened before 2000-01-01", "none of the", "is selected"]);
    assert_fails(&late, 1, &["B (opened from 2100-01-01"]);
    let folder = TempDir::new().unwrap();
    let report = mpwatch(&["replay", REQUESTS, "--format", "json"]).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let mut opened: Vec<String> = report["connections"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|connection| connection["opened_at"].as_str().map(str::to_owned))
        .collect();
    opened.sort();
    let database = database(&folder, REQUESTS);
    let rows = rows(&[&database, "--split", &opened[opened.len() / 2]]);
    let number = |side: &str| rows[0][side].as_u64().unwrap();
    assert!(number("a_connections") > 0 && number("b_connections") > 0, "{rows:?}");
}

#[test]
fn an_error_says_what_cannot_be_compared() {
    assert_fails(&mpwatch(&["compare", REQUESTS]), 2, &["second file B", "--by", "--split"]);
    assert_fails(&mpwatch(&["compare", REQUESTS, TWO_PATHS, "--by", "protocol"]), 2, &["--by"]);
    assert_fails(&mpwatch(&["compare", REQUESTS, REQUESTS]), 1, &["same file", "--by protocol", "--split"]);
    assert_fails(&mpwatch(&["compare", REQUESTS, "/nowhere/b.db"]), 1, &["cannot read /nowhere/b.db"]);
    assert_fails(&mpwatch(&["compare", REQUESTS, "/etc/passwd"]), 1, &["/etc/passwd is not a recording"]);
    assert_fails(&mpwatch(&["compare", REQUESTS, "--by", "protocol"]), 1, &["A (tcp) has no connections"]);
    let filtered = mpwatch(&["compare", REQUESTS, TWO_PATHS, "--filter", "peer:192.0.2.1"]);
    assert_fails(&filtered, 1, &["A (", "has no connections to compare: none of the"]);
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("copy.mpw").display().to_string();
    std::fs::copy(FALLBACK, &copy).unwrap();
    assert_fails(&mpwatch(&["compare", REQUESTS, &copy, "-o", &copy]), 1, &["the same file"]);
    // A pipe gets the report.
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let written = mpwatch(&["compare", REQUESTS, TWO_PATHS, "-o", &pipe.display().to_string()]);
    assert!(written.code == Some(0) && reader.join().unwrap().contains("compared with A"), "{written:?}");
    let database = database(&folder, REQUESTS);
    for (file, what) in [(&copy, "recording"), (&database, "database")] {
        let before = std::fs::read(file).unwrap();
        let refused = mpwatch(&["compare", REQUESTS, TWO_PATHS, "-o", file]);
        assert_fails(&refused, 1, &[&format!("is a {what}, which a report does not replace")]);
        assert_eq!(std::fs::read(file).unwrap(), before);
    }
}

#[test]
fn two_labels_select_runs_of_a_database() {
    let folder = TempDir::new().unwrap();
    let database = database(&folder, REQUESTS);
    let labels = ["--label", "cc=cubic", "--label", "cc=bbr"];
    let compare = |arguments: &[&str]| mpwatch(&[&["compare"], arguments].concat());
    assert_fails(
        &compare(&[&[database.as_str()], &labels[..]].concat()),
        1,
        &["no run in ", "has the label cc=cubic", "no run has any label", "record --label"],
    );
    assert_fails(&compare(&[&[REQUESTS], &labels[..]].concat()), 1, &["is not a database"]);
    assert_fails(&compare(&[&[database.as_str()], &labels[..2]].concat()), 2, &["two labels"]);
    assert_fails(&compare(&[&[database.as_str()], &["--label", "cubic"][..]].concat()), 2, &["NAME=VALUE"]);
}
