// SPDX-License-Identifier: MIT OR Apache-2.0
//! A database that a replay has filled gives the replay's own report again, to the letter, and can be asked with any SQLite.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::{Path, PathBuf};

use mpwatch_store::{Limits, Store};
use mpwatch_tests::{CommandOutput, list, mpwatch, number};
use serde_json::Value;
use tempfile::TempDir;

const CASES: &[&str] = &["two_paths", "failover", "requests", "fallback"];

fn recording(case: &str) -> String {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/events");
    folder.join(format!("{case}.mpw")).to_string_lossy().into_owned()
}

#[track_caller]
fn good(outcome: CommandOutput) -> String {
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    outcome.stdout
}

/// A database of one recording, and what its replay printed meanwhile.
fn filled(case: &str, format: &str) -> (TempDir, String, String) {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("flows.db").to_string_lossy().into_owned();
    let printed = good(mpwatch(&["replay", &recording(case), "--db", &db, "--format", format]));
    (folder, db, printed)
}

#[test]
fn a_database_gives_the_report_of_the_replay_that_filled_it() {
    for case in CASES {
        for format in ["json", "text", "csv"] {
            let (_folder, db, printed) = filled(case, format);
            let report = good(mpwatch(&["report", "--db", &db, "--format", format]));
            assert_eq!(report, printed, "{case} as {format}");
        }
    }
}

#[test]
fn totals_of_the_views_are_those_of_the_report() {
    for case in CASES {
        let (_folder, db, printed) = filled(case, "json");
        let report: Value = serde_json::from_str(&printed).unwrap();
        let database = rusqlite::Connection::open(&db).unwrap();
        let sum = |sql: &str| {
            database.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).unwrap().map(i64::cast_unsigned)
        };
        let connections = list(&report, "connections");
        assert_eq!(sum("SELECT count(*) FROM v_connection"), Some(connections.len() as u64));
        for field in ["bytes_sent", "bytes_received", "bytes_retransmitted"] {
            let total: u64 = connections.iter().filter_map(|one| one[field].as_u64()).sum();
            assert_eq!(
                sum(&format!("SELECT sum({field}) FROM v_connection")).unwrap_or(0),
                total,
                "{case}: {field}"
            );
            let subflows = connections.iter().flat_map(|one| list(one, "subflows"));
            let total: u64 = subflows.map(|one| number(one, field)).sum();
            assert_eq!(
                sum(&format!("SELECT sum({field}) FROM v_subflow")).unwrap_or(0),
                total,
                "{case}: {field}"
            );
        }
        let events: usize = connections.iter().map(|one| list(one, "timeline").len()).sum();
        assert_eq!(sum("SELECT count(*) FROM v_event"), Some(events as u64), "{case}");
    }
}

/// A file as the first version left it.
fn of_version_one(folder: &Path) -> String {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(checkout.join(name)).unwrap();
    let file = folder.join("old.db");
    let database = rusqlite::Connection::open(&file).unwrap();
    database.pragma_update(None, "auto_vacuum", "INCREMENTAL").unwrap();
    database.pragma_update(None, "application_id", i32::from_be_bytes(*b"mpw1")).unwrap();
    for text in [read("../store/src/schema/1.sql"), read("fixtures/store/1.sql")] {
        database.execute_batch(&format!("BEGIN; {text} COMMIT;")).unwrap();
    }
    database.pragma_update(None, "user_version", 1).unwrap();
    file.to_string_lossy().into_owned()
}

#[test]
fn a_file_of_the_first_version_gives_the_same_report_before_and_after_it_is_brought_up_to_date() {
    let folder = TempDir::new().unwrap();
    let new = folder.path().join("new.db").to_string_lossy().into_owned();
    let shared = recording("../bottleneck/shared-n2-20m-none-uneq-bbr-5s-s0");
    for file in CASES.iter().map(|case| recording(case)).chain([shared]) {
        good(mpwatch(&["replay", &file, "--db", &new]));
    }
    let report = |db: &str| good(mpwatch(&["report", "--db", db, "--format", "json"]));
    let expected = report(&new);
    assert!(expected.contains("\"verdict\":\"shared\"") || expected.contains("\"verdict\": \"shared\""));
    let old = of_version_one(folder.path());
    let before = std::fs::read(&old).unwrap();
    assert_eq!(report(&old), expected);
    assert_eq!(std::fs::read(&old).unwrap(), before, "reading changes nothing");
    Store::open(Path::new(&old), &Limits::none()).unwrap().close();
    assert_eq!(report(&old), expected);
    let views = |db: &str| {
        let database = rusqlite::Connection::open(db).unwrap();
        let sums = "SELECT printf('%d %d %d %s %s', count(*), sum(bytes_sent), sum(bytes_acked), sum(excess_ratio), sum(jain_index)) FROM v_connection";
        let rows = |view: &str| format!("SELECT count(*) FROM {view}");
        let told: String = database.query_row(sums, [], |row| row.get(0)).unwrap();
        let counts = ["v_run", "v_subflow", "v_bottleneck", "v_event", "v_sample"]
            .map(|view| database.query_row(&rows(view), [], |row| row.get::<_, i64>(0)).unwrap());
        (told, counts, database.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap())
    };
    assert_eq!(views(&old), views(&new));
}

#[test]
fn a_report_is_narrowed_by_time_and_by_filter() {
    let (folder, db, _) = filled("two_paths", "json");
    let report = |arguments: &[&str]| {
        let all = [&["report", "--db", &db, "--format", "json"], arguments].concat();
        let report: Value = serde_json::from_str(&good(mpwatch(&all))).unwrap();
        list(&report, "connections").len()
    };
    let all = report(&[]);
    assert!(all > 0);
    assert_eq!(report(&["--since", "2000-01-01", "--until", "2100-01-01"]), all);
    assert_eq!(report(&["--until", "2000-01-01T00:00:00Z"]), 0);
    assert_eq!(report(&["--filter", "role:client"]) + report(&["--filter", "!role:client"]), all);
    assert_eq!(report(&["--filter", "peer:192.0.2.1"]), 0);
    let file = folder.path().join("report.csv");
    assert_eq!(good(mpwatch(&["report", "--db", &db, "--format", "csv", "-o", file.to_str().unwrap()])), "");
    assert!(std::fs::read_to_string(file).unwrap().starts_with("id,token,"));
}

#[test]
fn two_replays_make_two_runs() {
    let (_folder, db, _) = filled("requests", "json");
    good(mpwatch(&["replay", &recording("two_paths"), "--db", &db]));
    let report: Value =
        serde_json::from_str(&good(mpwatch(&["report", "--db", &db, "--format", "json"]))).unwrap();
    let of = |case: &str| {
        let alone: Value =
            serde_json::from_str(&good(mpwatch(&["replay", &recording(case), "--format", "json"]))).unwrap();
        list(&alone, "connections").len()
    };
    assert_eq!(list(&report, "connections").len(), of("requests") + of("two_paths"));
}

#[test]
fn a_recording_that_is_there_already_is_refused_and_changes_nothing() {
    let (_folder, db, _) = filled("two_paths", "json");
    let report = || good(mpwatch(&["report", "--db", &db, "--format", "json"]));
    let before = report();
    let again = mpwatch(&["replay", &recording("two_paths"), "--db", &db]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("has this recording already"), "{}", again.stderr);
    assert_eq!(report(), before);
    assert!(!Path::new(&db).with_extension("db.lock").exists());
}

#[test]
fn what_is_read_is_never_written_over() {
    let (folder, db, _) = filled("two_paths", "json");
    let copy = folder.path().join("copy.mpw");
    std::fs::copy(recording("two_paths"), &copy).unwrap();
    let link = folder.path().join("link.mpw");
    std::fs::hard_link(&copy, &link).unwrap();
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let (copy, link) = (name(&copy), name(&link));
    for arguments in [
        vec!["replay", &copy, "-o", &copy],
        vec!["replay", &copy, "-o", &link],
        vec!["replay", &copy, "--db", &copy],
        vec!["report", "--db", &db, "-o", &db],
        vec!["record", "new.mpw", "-o", "./new.mpw"],
        vec!["record", "new.mpw", "--db", "new.mpw"],
    ] {
        let kept = [&copy, &db].map(|file| std::fs::read(file).unwrap());
        let refused = mpwatch(&arguments);
        assert_eq!(refused.code, Some(1), "{arguments:?}");
        assert!(refused.stderr.contains("are the same file"), "{arguments:?}: {}", refused.stderr);
        assert_eq!([&copy, &db].map(|file| std::fs::read(file).unwrap()), kept, "{arguments:?}");
    }
}

#[test]
fn a_wrong_file_or_time_is_named() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("none.db").to_string_lossy().into_owned();
    let outcome = mpwatch(&["report", "--db", &missing]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("none.db") && outcome.stderr.contains("--db FILE"), "{}", outcome.stderr);
    let outcome = mpwatch(&["report", "--db", &recording("requests")]);
    assert!(outcome.stderr.contains("is not a database of mpwatch"), "{}", outcome.stderr);
    let outcome = mpwatch(&["report", "--db", &missing, "--since", "yesterday"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("2026-03-01"), "{}", outcome.stderr);
}
