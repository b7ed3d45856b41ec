// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generated documents, and the tables of tested kernels, are up to date. After a change, run this test with MPWATCH_BLESS=1 to
//! regenerate them, and read the diff.
#![allow(clippy::unwrap_used, reason = "a test's own files")]
#![allow(clippy::expect_used, reason = "a test")]

use std::path::{Path, PathBuf};

use mpwatch_exporters::{docs, schema};
use mpwatch_tests::kernel;

fn documents() -> [(&'static str, String); 6] {
    let pretty = |value: serde_json::Value| format!("{value:#}\n");
    let kernels = kernel::load_all();
    [
        ("METRICS.md", docs::metrics_md()),
        ("docs/json.md", docs::json_md()),
        ("docs/report.schema.json", pretty(schema::report_schema())),
        ("docs/snapshot.schema.json", pretty(schema::snapshot_schema())),
        ("README.md", with_table("README.md", &kernel::support_table(&kernels))),
        ("docs/kernel.md", with_table("docs/kernel.md", &kernel::verifier_table(&kernels))),
    ]
}

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// A document with the table between its two marks replaced.
fn with_table(name: &str, table: &str) -> String {
    let text = std::fs::read_to_string(in_checkout(name)).unwrap();
    let (before, rest) = text.split_once("<!-- generated -->\n").expect("a mark before the table");
    let (_, after) = rest.split_once("<!-- end -->").expect("a mark after the table");
    format!("{before}<!-- generated -->\n{table}<!-- end -->{after}")
}

#[test]
fn generated_documents_are_current() {
    let bless = std::env::var_os("MPWATCH_BLESS").is_some();
    let mut stale = Vec::new();
    for (name, generated) in documents() {
        let path = in_checkout(name);
        if std::fs::read_to_string(&path).unwrap_or_default() == generated {
            continue;
        }
        if bless {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, generated).unwrap();
        } else {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} are out of date; regenerate them with\n  MPWATCH_BLESS=1 cargo test -p mpwatch-tests --test docs_generated"
    );
}

#[test]
fn every_field_of_the_json_has_a_description() {
    let text = docs::json_md();
    for line in text.lines().filter(|line| line.starts_with("| `") && line.matches(" | ").count() >= 3) {
        let description = line.split(" | ").nth(3).unwrap_or("").trim_matches([' ', '|']);
        assert!(!description.is_empty(), "no description: {line}");
    }
}
