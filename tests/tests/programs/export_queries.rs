// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queries in dashboards/clickhouse/queries, on known data: `ends.jsonl` has connections between two sites, and the files next
//! to it have the expected answer of each query, computed by hand from the comments of the rows.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mpwatch_bench::dashboards::{FLEET, sql};
use mpwatch_tests::clickhouse::{Engine, engine, schema};
use serde_json::Value;

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The known rows. A nested column that a row lacks becomes an array of NULLs, as long as the row's other columns of that nested table.
fn rows() -> String {
    let schema = schema(&[]);
    let arrays: BTreeSet<&str> = schema
        .lines()
        .filter_map(|line| line.trim().strip_prefix('`')?.split_once("` Array("))
        .map(|(name, _)| name)
        .collect();
    let text = fs::read_to_string(in_checkout("tests/fixtures/clickhouse/ends.jsonl")).unwrap();
    let complete = |line: &str| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        for array in &arrays {
            let key = if array.starts_with("subflow.") { "subflow.id" } else { "bottleneck.a" };
            let length = row[key].as_array().unwrap().len();
            let row = row.as_object_mut().unwrap();
            row.entry(*array).or_insert_with(|| vec![Value::Null; length].into());
        }
        format!("{row}\n")
    };
    text.lines().map(complete).collect()
}

/// An engine with the known rows. `None`: no engine is installed.
fn filled() -> Option<Engine> {
    let engine = engine()?;
    // The rows are inserted twice, because repetition must not change an answer.
    for _ in 0..2 {
        engine.query(&format!("INSERT INTO mpwatch.ends FORMAT JSONEachRow\n{}", rows()));
    }
    Some(engine)
}

#[test]
fn every_query_answers_as_computed_by_hand() {
    let Some(engine) = filled() else { return };
    let mut queries = 0;
    for file in fs::read_dir(in_checkout("dashboards/clickhouse/queries")).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let query = fs::read_to_string(&file).unwrap();
        assert!(query.contains("{hours:UInt64}"), "{name} has no parameter for its period");
        let expected =
            fs::read_to_string(in_checkout(&format!("tests/fixtures/clickhouse/{name}.tsv"))).unwrap();
        // The data has dates years ahead, so that every period includes it.
        let query = query.replace("{hours:UInt64}", "24");
        assert_eq!(engine.query(&format!("{query} FORMAT TSVWithNames")), expected, "{name}");
        queries += 1;
    }
    assert!(queries >= 10, "{queries} queries");
}

#[test]
fn every_panel_of_the_dashboard_has_rows_in_the_displayed_period_only() {
    let Some(engine) = filled() else { return };
    let panels = || FLEET.rows.iter().flat_map(|(_, row)| *row);
    let answer = |text: &str, [from, to]: [&str; 2]| {
        let query = sql(text).replace("$__from", from).replace("$__to", to);
        assert!(!query.contains("{hours"), "{query}");
        engine.query(&format!("{} FORMAT TSV", query.replace("$__interval_ms", "60000")))
    };
    for panel in panels() {
        for (text, _) in panel.queries {
            assert_ne!(answer(text, ["0", "9000000000000"]), "", "{} has no rows", panel.title);
            for other in [["8000000000000", "9000000000000"], ["0", "1"]] {
                assert_eq!(answer(text, other), "", "{} shows rows outside of its period", panel.title);
            }
        }
    }
    // Each query of the folder has a panel.
    for file in fs::read_dir(in_checkout("dashboards/clickhouse/queries")).unwrap() {
        let query = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(panels().any(|panel| panel.queries[0].0 == query), "no panel shows {query}");
    }
}
