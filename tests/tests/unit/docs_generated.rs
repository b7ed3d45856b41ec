// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents that are made from the code, and the tables that are made from what is on record of the kernels, are what
//! would be made now. After a change run this with MPWATCH_BLESS=1, which writes them, and read the difference as a user would.
#![allow(clippy::unwrap_used, reason = "a test's own files")]
#![allow(clippy::expect_used, reason = "a test")]

use std::path::{Path, PathBuf};

use mpwatch_bench::documents;
use mpwatch_exporters::schema;
use mpwatch_tests::kernel;

fn documents() -> [(&'static str, String); 6] {
    let pretty = |value: serde_json::Value| format!("{value:#}\n");
    let kernels = kernel::load_all();
    [
        ("METRICS.md", documents::metrics_md()),
        ("docs/json.md", documents::json_md()),
        ("docs/report.schema.json", pretty(schema::report_schema())),
        ("docs/snapshot.schema.json", pretty(schema::snapshot_schema())),
        ("README.md", with_table("README.md", &kernel::support_table(&kernels))),
        ("docs/kernel.md", with_table("docs/kernel.md", &kernel::verifier_table(&kernels))),
    ]
}

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// A document with another table between its two marks.
fn with_table(name: &str, table: &str) -> String {
    let text = std::fs::read_to_string(in_checkout(name)).unwrap();
    let (before, rest) = text.split_once("<!-- generated -->\n").expect("a mark where the table begins");
    let (_, after) = rest.split_once("<!-- end -->").expect("a mark where the table ends");
    format!("{before}<!-- generated -->\n{table}<!-- end -->{after}")
}

#[test]
fn generated_documents_are_current() {
    let bless = std::env::var_os("MPWATCH_BLESS").is_some();
    let mut stale = Vec::new();
    for (name, made) in documents() {
        let path = in_checkout(name);
        if std::fs::read_to_string(&path).unwrap_or_default() == made {
            continue;
        }
        if bless {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, made).unwrap();
        } else {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} are not what the code makes; write them with\n  MPWATCH_BLESS=1 cargo test -p mpwatch-tests --test unit docs_generated"
    );
}

#[test]
fn every_field_of_the_json_says_what_it_means() {
    let text = documents::json_md();
    for line in text.lines().filter(|line| line.starts_with("| `") && line.matches(" | ").count() >= 3) {
        let meaning = line.split(" | ").nth(3).unwrap_or("").trim_matches([' ', '|']);
        assert!(!meaning.is_empty(), "no meaning: {line}");
    }
}
