// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report from a database is the same as the output of the replay that wrote it. Any SQLite can query the file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpwatch_tests::{CommandOutput, list, mpwatch, number, output, program, skip, text};
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

/// A database of a recording, and the output of its replay.
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
fn a_report_that_does_not_fit_into_memory_has_the_latest_connections_and_says_so() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount"]);
        command
    };
    if !output(unshare().arg("true")).status.success() {
        return skip("this user may not create a mount namespace");
    }
    let (folder, db, _) = filled("requests", "json");
    for case in CASES.iter().filter(|case| **case != "requests") {
        good(mpwatch(&["replay", &recording(case), "--db", &db]));
    }
    let printed = good(mpwatch(&["report", "--db", &db, "--format", "json"]));
    let meminfo = folder.path().join("meminfo");
    // Half of it is enough for four connections of 5 kB.
    std::fs::write(&meminfo, "MemTotal: 40 kB\nMemAvailable: 40 kB\n").unwrap();
    let report = |format: &str| {
        let script = format!("mount --bind '{}' /proc/meminfo && exec \"$@\"", meminfo.display());
        let mut command = unshare();
        command.args(["sh", "-c", &script, "sh"]).arg(program());
        good(output(command.args(["report", "--db", &db, "--format", format])).into())
    };
    let ids = |printed: &str| -> Vec<String> {
        let report: Value = serde_json::from_str(printed).unwrap();
        list(&report, "connections").iter().map(|connection| text(connection, "id").to_owned()).collect()
    };
    let (all, short) = (ids(&printed), report("json"));
    assert!(all.len() > 4, "{all:?}");
    assert!((1..=4).contains(&ids(&short).len()) && all.ends_with(&ids(&short)), "{:?}", ids(&short));
    let left_out = all.len() - ids(&short).len();
    let reason = format!("{left_out} older connections do not fit into memory");
    assert!(report("text").contains(&reason), "{}", report("text"));
    assert_eq!(
        report("csv-connections"),
        good(mpwatch(&["report", "--db", &db, "--format", "csv-connections"]))
    );
}

#[test]
fn the_views_have_the_totals_of_the_report() {
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
            let total: u64 = connections.iter().filter_map(|connection| connection[field].as_u64()).sum();
            assert_eq!(
                sum(&format!("SELECT sum({field}) FROM v_connection")).unwrap_or(0),
                total,
                "{case}: {field}"
            );
            let subflows = connections.iter().flat_map(|connection| list(connection, "subflows"));
            let total: u64 = subflows.map(|subflow| number(subflow, field)).sum();
            assert_eq!(
                sum(&format!("SELECT sum({field}) FROM v_subflow")).unwrap_or(0),
                total,
                "{case}: {field}"
            );
        }
        let events: usize = connections.iter().map(|connection| list(connection, "timeline").len()).sum();
        assert_eq!(sum("SELECT count(*) FROM v_event"), Some(events as u64), "{case}");
    }
}

#[test]
fn the_queries_of_the_manual_find_the_failed_path() {
    let (_folder, db, _) = filled("failover", "json");
    let database = rusqlite::Connection::open(&db).unwrap();
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/store.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let queries: Vec<&str> =
        manual.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [failed, cost] = queries[..] else { panic!("two queries: {queries:?}") };
    let mut query = database.prepare(failed).unwrap();
    let rows = query.query_map([], |row| Ok((row.get::<_, String>(5)?, row.get::<_, f64>(4)?))).unwrap();
    let rows: Vec<(String, f64)> = rows.map(Result::unwrap).collect();
    let [(outcome, seconds)] = &rows[..] else { panic!("one failed path: {rows:?}") };
    assert_eq!(outcome, "until the end");
    // The report begins with the same failure.
    let report = mpwatch(&["report", "--db", &db]).stdout;
    let down = format!("did not work again in the {seconds:.1} s until");
    let down_short = format!("did not work again in the {seconds:.2} s until");
    assert!(report.contains(&down) || report.contains(&down_short), "{seconds}: {report}");
    let mut query = database.prepare(cost).unwrap();
    let initial = query.query_map([], |row| row.get::<_, bool>(1)).unwrap();
    let initial: BTreeSet<bool> = initial.map(Result::unwrap).collect();
    assert_eq!(initial.len(), 2, "initial and joined subflows");
}

fn views(db: &str) -> Vec<String> {
    let database = rusqlite::Connection::open(db).unwrap();
    let mut query = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'view'").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// The columns of a view.
fn columns(db: &str, view: &str) -> Vec<String> {
    let database = rusqlite::Connection::open(db).unwrap();
    let query = database.prepare(&format!("SELECT * FROM {view}")).unwrap();
    query.column_names().into_iter().map(str::to_owned).collect()
}

/// Words in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn docs_describe_every_column_of_every_view() {
    let (_folder, db, _) = filled("requests", "json");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let [store, json] = ["store.md", "json.md"].map(|file| std::fs::read_to_string(docs.join(file)).unwrap());
    for view in views(&db) {
        let view = view.as_str();
        let section =
            store.split_once(&format!("\n## {view}:")).map(|(_, rest)| rest.split("\n## ").next().unwrap());
        let row = || store.lines().find(|line| line.starts_with(&format!("| `{view}` |"))).expect(view);
        let mut known: BTreeSet<&str> = quoted(section.unwrap_or_else(row)).collect();
        if ["v_subflow", "v_bottleneck"].contains(&view) {
            known.extend(quoted(&json));
        }
        let missing: Vec<String> =
            columns(&db, view).into_iter().filter(|column| !known.contains(column.as_str())).collect();
        assert!(
            missing.is_empty(),
            "columns of {view} without a description: {missing:?}. Regenerate docs/json.md if it is stale; describe other columns in \
             docs/store.md"
        );
    }
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
    assert!(std::fs::read_to_string(file).unwrap().starts_with("host,boot_id,labels,id,"));
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
fn input_files_are_never_overwritten() {
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
fn errors_name_the_wrong_file_or_time() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("none.db").to_string_lossy().into_owned();
    let outcome = mpwatch(&["report", "--db", &missing]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("none.db") && outcome.stderr.contains("--db FILE"), "{}", outcome.stderr);
    let outcome = mpwatch(&["report", "--db", &folder.path().to_string_lossy()]);
    assert!(outcome.stderr.contains("it is a folder; name a file in it, such as "), "{}", outcome.stderr);
    let outcome = mpwatch(&["report", "--db", &recording("requests")]);
    assert!(outcome.stderr.contains("is not a database of mpwatch"), "{}", outcome.stderr);
    let outcome = mpwatch(&["report", "--db", &missing, "--since", "tomorrow"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("2026-03-01"), "{}", outcome.stderr);
}
