// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/research.md: its examples for pandas and DuckDB read the files that its commands export. `MPWATCH_PYTHON` is a Python with both
//! packages; `./dev test slow` installs it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpwatch_tests::{mpwatch, skip};
use tempfile::TempDir;

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Runs mpwatch, which must succeed.
#[track_caller]
fn good(arguments: &[&str]) -> String {
    let outcome = mpwatch(arguments);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    outcome.stdout
}

/// A folder with the database of a recording and its three CSV files.
fn exported(samples: &[&str]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let recording = in_checkout("tests/fixtures/events/failover.mpw");
    let db = path("experiment.db");
    good(&[&["replay", recording.to_str().unwrap(), "--db", &db], samples].concat());
    for (format, file) in
        [("csv-connections", "connections.csv"), ("csv", "subflows.csv"), ("csv-samples", "samples.csv")]
    {
        assert_eq!(good(&["report", "--db", &db, "--format", format, "-o", &path(file)]), "");
    }
    folder
}

/// The rows of a file, with their columns.
fn rows(folder: &TempDir, file: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(folder.path().join(file)).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

#[test]
fn csv_has_the_columns_of_the_views() {
    let folder = exported(&["--samples", "100ms"]);
    let database = rusqlite::Connection::open(folder.path().join("experiment.db")).unwrap();
    let count = |view: &str| -> usize {
        database
            .query_row(&format!("SELECT count(*) FROM {view}"), [], |row| row.get::<_, i64>(0))
            .unwrap()
            .try_into()
            .unwrap()
    };
    let columns = |view: &str| -> Vec<String> {
        let query = database.prepare(&format!("SELECT * FROM {view}")).unwrap();
        query.column_names().into_iter().map(str::to_owned).collect()
    };
    let of_file = ["connection", "run", "runs"];
    for (file, view, prefix) in [
        ("connections.csv", "v_connection", ""),
        ("subflows.csv", "v_subflow", "subflow_"),
        ("samples.csv", "v_sample", ""),
    ] {
        let rows = rows(&folder, file);
        assert_eq!(rows.len(), count(view), "{file}");
        for column in columns(view).iter().filter(|name| !of_file.contains(&name.as_str())) {
            assert!(rows[0].contains_key(&format!("{prefix}{column}")), "{file}: {column}");
        }
    }
    let connections = rows(&folder, "connections.csv");
    let subflows = rows(&folder, "subflows.csv");
    let of_first = subflows.iter().filter(|row| row["id"] == connections[0]["id"]).count();
    assert_eq!(connections[0]["subflows"], of_first.to_string());
    assert!(
        subflows.iter().all(|row| !row["subflow_bytes_sent"].is_empty() && !row["bytes_sent"].is_empty())
    );
}

#[test]
fn samples_are_as_dense_as_their_step() {
    let samples = |arguments: &[&str]| rows(&exported(arguments), "samples.csv").len();
    let (dense, sparse, usual) =
        (samples(&["--samples", "100ms"]), samples(&["--samples", "2s"]), samples(&[]));
    assert!(dense > sparse && sparse > 0, "{dense}, {sparse}");
    assert!(dense > usual, "{dense}, {usual}");
}

#[test]
fn samples_need_a_database_and_a_step_of_at_least_the_interval() {
    let recording = in_checkout("tests/fixtures/events/failover.mpw");
    let recording = recording.to_str().unwrap();
    for (arguments, word) in [
        (&["replay", recording, "--format", "csv-samples"][..], "--db FILE"),
        (&["replay", recording, "--samples", "1s"], "--db"),
        (&["replay", recording, "--db", "x", "--samples", "10ms"], "100ms"),
        (&["record", "x", "--db", "y", "--samples", "200ms", "--interval", "1s"], "--interval"),
        (&["record", "x", "--label", "nothing"], "NAME=VALUE"),
        (&["record", "x", "--label", "a=1", "--label", "a=2"], "given twice"),
    ] {
        let outcome = mpwatch(arguments);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
    }
}

/// The Python of `MPWATCH_PYTHON`. `None`: packages are missing, and the test is skipped.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("MPWATCH_PYTHON").map(PathBuf::from);
    let has_packages = |python: &PathBuf| {
        let imports = Command::new(python).args(["-c", "import pandas, duckdb"]).output();
        imports.is_ok_and(|output| output.status.success())
    };
    let python = python.filter(has_packages);
    if python.is_none() {
        skip("MPWATCH_PYTHON does not name a Python with pandas and DuckDB; `./dev test slow` installs it");
    }
    python
}

#[test]
fn the_examples_in_the_document_run() {
    let Some(python) = python() else { return };
    let folder = exported(&["--samples", "100ms"]);
    let document = fs::read_to_string(in_checkout("docs/research.md")).unwrap();
    let examples: Vec<&str> =
        document.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 3);
    for (example, expected) in examples.into_iter().zip(["j_per_gb", "send_bps", "send_bps"]) {
        assert_eq!(example.lines().count(), 5, "five lines: {example}");
        let output = Command::new(&python).args(["-c", example]).current_dir(folder.path()).output().unwrap();
        let [printed, errors] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success(), "{errors}");
        assert!(printed.contains(expected) && printed.lines().count() > 2, "{printed}");
    }
}
