// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generated documents are current: documents from the code, and the tables of docs/kernel.md from the records of kernels. After a change,
//! run this test with MPWATCH_BLESS=1, which writes the documents, and read the difference as a user would.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::expect_used, reason = "a test")]

use std::path::{Path, PathBuf};

use mpwatch_bench::documents;
use mpwatch_bench::schema;
use mpwatch_tests::kernel;

fn documents() -> [(&'static str, String); 6] {
    let pretty = |value: serde_json::Value| format!("{value:#}\n");
    [
        ("METRICS.md", documents::metrics_md()),
        ("docs/json.md", documents::json_md()),
        ("docs/report.schema.json", pretty(schema::report_schema())),
        ("docs/snapshot.schema.json", pretty(schema::snapshot_schema())),
        ("docs/why.md", mpwatch_bench::why::why_md()),
        ("docs/kernel.md", kernel_md()),
    ]
}

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// docs/kernel.md with new tables.
fn kernel_md() -> String {
    let text = std::fs::read_to_string(in_checkout("docs/kernel.md")).unwrap();
    let kernels = kernel::load_all();
    let text = with_table(&text, "kernels", &kernel::support_table(&kernels));
    with_table(&text, "verifier", &kernel::verifier_table(&kernels))
}

/// Replaces the table between the mark with this name and the next end mark.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let mark = format!("<!-- generated: {name} -->\n");
    let (before, rest) = text.split_once(&mark).expect("a mark where the table begins");
    let (_, after) = rest.split_once("<!-- end -->").expect("a mark where the table ends");
    format!("{before}{mark}{table}<!-- end -->{after}")
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
        "{stale:?} are stale; regenerate them with\n  MPWATCH_BLESS=1 cargo test --workspace --test unit docs_generated"
    );
}

#[test]
fn every_field_of_the_json_has_a_meaning() {
    let text = documents::json_md();
    for line in text.lines().filter(|line| line.starts_with("| `") && line.matches(" | ").count() >= 3) {
        let meaning = line.split(" | ").nth(3).unwrap_or("").trim_matches([' ', '|']);
        assert!(!meaning.is_empty(), "no meaning: {line}");
    }
}
