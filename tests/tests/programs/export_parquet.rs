// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export parquet`: its files have the rows of the database, and the examples of docs/fleet.md read them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use mpwatch_fixtures as fixture;
use mpwatch_model::unit::{Bytes, Microjoules};
use mpwatch_store::{Limits, Store};
use mpwatch_tests::{mpwatch, skip};
use tempfile::TempDir;

/// A folder with a database of clients with one, two and three subflows on two days, one of them with unknown energy.
fn database() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("flows.db");
    let store = Store::open(&path, &Limits::none()).unwrap();
    let connections = (1..=6).map(|token| {
        let mut connection = fixture::closed(token);
        let subflow = connection.subflows[0].clone();
        connection.subflows.resize_with(usize::try_from(token % 3).unwrap() + 1, || subflow.clone());
        for (place, subflow) in (1_u32..).zip(&mut connection.subflows) {
            (subflow.id.generation, subflow.place) = (place, place);
            if let Some(energy) = &mut subflow.energy {
                energy.active = Some(Microjoules(1_000_003 * u64::from(token) + u64::from(place)));
            }
        }
        connection.observed.as_mut().unwrap().bytes = Bytes(7_000_000 + u64::from(token));
        if token == 6 {
            connection.subflows.iter_mut().for_each(|subflow| subflow.energy = None);
        }
        if token > 3 {
            connection.shift(-86_400_000_000_000);
        }
        connection
    });
    store.deliver(&Arc::new(fixture::snapshot(connections.collect())));
    store.close();
    (folder, path)
}

fn export(db: &Path, out: &Path, more: &[&str]) -> String {
    let arguments = ["export", "parquet", "--db", db.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let outcome = mpwatch(&[&arguments, more].concat());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{outcome:?}");
    outcome.stderr
}

/// All files below a folder, by their path in it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The output of a Python program that uses DuckDB, pandas and pyarrow. `None`: packages are missing, and the test is skipped.
fn python(program: &str, folder: &Path) -> Option<String> {
    let python = std::env::var_os("MPWATCH_PYTHON").unwrap_or_default();
    let imports = Command::new(&python).args(["-c", "import pandas, duckdb, pyarrow"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        skip(
            "MPWATCH_PYTHON does not name a Python with pandas, pyarrow and DuckDB; `./dev test slow` installs it",
        );
        return None;
    }
    let output = Command::new(&python).args(["-c", program]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn files_are_partitioned_by_day_and_host() {
    let (folder, db) = database();
    let out = folder.path().join("out");
    let printed = export(&db, &out, &[]);
    assert!(printed.contains("wrote 6 connections with 12 subflows to 4 files"), "{printed}");
    let found = files(&out);
    assert_eq!(found.len(), 4, "{found:?}");
    for (path, kind) in found.iter().zip(["connections", "connections", "subflows", "subflows"]) {
        assert!(path.starts_with(&format!("{kind}/day=20")) && path.contains("/host="), "{path}");
        assert!(
            path.rsplit('/').next().unwrap().starts_with("flows-") && path.ends_with(".parquet"),
            "{path}"
        );
    }
    let later_day = found[1].split('/').nth(1).unwrap().strip_prefix("day=").unwrap();
    let one_day = folder.path().join("one");
    let printed = export(&db, &one_day, &["--since", later_day, "--until", later_day]);
    assert!(printed.contains("wrote 3 connections with 6 subflows to 2 files"), "{printed}");
    assert_eq!(files(&one_day), [found[1].clone(), found[3].clone()]);
}

#[test]
fn a_file_is_replaced_unless_the_database_has_deleted_connections() {
    let (folder, db) = database();
    let out = folder.path().join("out");
    export(&db, &out, &[]);
    let before = files(&out);
    let printed = export(&db, &out, &[]);
    assert!(printed.contains("4 files") && !printed.contains("kept"), "{printed}");
    assert_eq!(files(&out), before);
    let database = rusqlite::Connection::open(&db).unwrap();
    database.execute_batch("DELETE FROM connection WHERE id = (SELECT min(id) FROM connection)").unwrap();
    drop(database);
    let printed = export(&db, &out, &[]);
    assert!(printed.contains("2 files") && printed.matches("kept").count() == 2, "{printed}");
    assert_eq!(files(&out), before);
}

#[test]
fn files_have_the_columns_of_the_views_and_unknown_values_are_null() {
    let (folder, db) = database();
    export(&db, &folder.path().join("flows"), &[]);
    let program = "import duckdb
for kind in ('connections', 'subflows'):
    names = duckdb.sql(f\"SELECT * FROM read_parquet('flows/{kind}/**/*.parquet', hive_partitioning = true)\").columns
    print(*names)
print(*duckdb.sql(\"SELECT token, energy_source, active_uj, j_per_gb, age_ns FROM 'flows/connections/**/*.parquet' WHERE token = '00000006'\").fetchall()[0])
";
    let Some(printed) = python(program, folder.path()) else { return };
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split(' ').collect()).collect();
    let database = rusqlite::Connection::open(&db).unwrap();
    let columns = |view: &str| -> Vec<String> {
        let query = database.prepare(&format!("SELECT * FROM {view}")).unwrap();
        query.column_names().into_iter().map(str::to_owned).collect()
    };
    for (view, found) in [("v_connection", &lines[0]), ("v_subflow", &lines[1])] {
        let of_file = ["connection", "run", "runs"];
        for column in columns(view).iter().filter(|name| !of_file.contains(&name.as_str())) {
            assert!(found.contains(&column.as_str()), "{view}.{column} is not in {found:?}");
        }
        assert!(found.contains(&"day") && found.contains(&"host"), "{found:?}");
    }
    assert_eq!(lines[2][..4], ["00000006", "None", "None", "None"]);
    let age: i64 = database
        .query_row("SELECT age_ns FROM v_connection WHERE token = '00000006'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(lines[2][4], age.to_string());
}

#[test]
fn the_examples_in_the_document_compute_joules_per_gigabyte() {
    let (folder, db) = database();
    export(&db, &folder.path().join("flows"), &[]);
    let database = rusqlite::Connection::open(&db).unwrap();
    let mut query = database
        .prepare(
            "SELECT subflows, sum(active_uj), sum(active_uj) * 1e3 / sum(observed_bytes) FROM v_connection
             WHERE role = 'client' AND observed_bytes > 0 AND active_uj IS NOT NULL GROUP BY 1 ORDER BY 1",
        )
        .unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let expected: Vec<(i64, i64, f64)> = rows.map(Result::unwrap).collect();
    assert_eq!(expected.len(), 3);
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fleet.md");
    let document = fs::read_to_string(document).unwrap();
    let examples: Vec<&str> =
        document.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        assert_eq!(example.lines().count(), 5, "five lines: {example}");
        let Some(printed) = python(example, folder.path()) else { return };
        for (subflows, active_uj, j_per_gb) in &expected {
            let is_row = |line: &&str| {
                let numbers: Vec<f64> =
                    line.split([' ', '│', '|']).filter_map(|word| word.parse().ok()).collect();
                let near = |value: &f64, wanted: f64| (value / wanted - 1.0).abs() < 1e-4;
                numbers.first() == Some(&(*subflows as f64))
                    && numbers.last().is_some_and(|last| near(last, *j_per_gb))
                    && numbers.iter().any(|value| near(value, *active_uj as f64))
            };
            assert!(
                printed.lines().any(|line| is_row(&line)),
                "{subflows} {active_uj} {j_per_gb}: {printed}"
            );
        }
    }
}

#[test]
fn wrong_usage_and_folders_are_errors_with_advice() {
    let (folder, db) = database();
    let (db, file) = (db.to_str().unwrap(), folder.path().join("file"));
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, code, words) in [
        (&["export", "parquet", "--db", db][..], 2, &["--out"][..]),
        (&["export"], 2, &["parquet"]),
        (
            &["export", "parquet", "--db", db, "--out", "x", "--since", "1d", "--until", "2d"],
            2,
            &["ends before it begins"],
        ),
        (
            &["export", "parquet", "--db", "missing.db", "--out", "x"],
            1,
            &["missing.db", "no such file", "daemon"],
        ),
        (&["export", "parquet", "--db", db, "--out", file], 1, &[file, "--out"]),
        (&["export", "parquet", "--db", file, "--out", "x"], 1, &[file, "not a database"]),
    ] {
        let outcome = mpwatch(arguments);
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
        }
        assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    }
}
