// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that the compiler does not check: dependencies between crates, and where `unsafe` is allowed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand};

/// The crates of the workspace on which each crate may depend. Benches, tests and fuzz targets may use all crates. No shipped crate depends
/// on these, but its own tests may use the testkit and the sample values.
const ARROWS: &[(&str, &[&str])] = &[
    ("mpwatch-model", &[]),
    ("mpwatch-lab", &[]),
    ("mpwatch-ebpf", &["mpwatch-model"]),
    ("mpwatch-engine", &["mpwatch-model"]),
    // `control` enters network namespaces and registers BPF struct_ops.
    ("mpwatch-control", &["mpwatch-model", "mpwatch-ebpf"]),
    ("mpwatch-tui", &["mpwatch-model"]),
    ("mpwatch-report", &["mpwatch-model"]),
    ("mpwatch-exporters", &["mpwatch-model"]),
    ("mpwatch-store", &["mpwatch-model"]),
    (
        "mpwatch",
        &[
            "mpwatch-model",
            "mpwatch-ebpf",
            "mpwatch-engine",
            "mpwatch-control",
            "mpwatch-tui",
            "mpwatch-report",
            "mpwatch-exporters",
            "mpwatch-store",
            "mpwatch-lab",
        ],
    ),
    // A program of its own, which runs the library of `mpwatch`.
    (
        STUDY,
        &[
            "mpwatch-model",
            "mpwatch-ebpf",
            "mpwatch-engine",
            "mpwatch-control",
            "mpwatch-report",
            "mpwatch-store",
            "mpwatch-lab",
            "mpwatch",
        ],
    ),
];
const STUDY: &str = "mpwatch-study";
/// Helpers that tests and benches share.
const TESTKIT: &str = "mpwatch-testkit";
const BENCH: &str = "mpwatch-bench";
const TESTS: &str = "mpwatch-tests";
const FUZZ: &str = "mpwatch-fuzz";
/// Sample values of the model: only tests and benches use them.
const FIXTURES: &str = "mpwatch-fixtures";
/// Folders and files in which `unsafe` is allowed.
const UNSAFE_ALLOWED: &[&str] = &["ebpf/", "lab/src/sys.rs"];
/// Crates that must build without the kernel, a database or a web server.
const PURE: &[&str] = &["mpwatch-model", "mpwatch-engine", "mpwatch-report", "mpwatch-tui"];
const NOT_PURE: &[&str] = &["libbpf-rs", "libbpf-sys", "rusqlite", "libsqlite3-sys", "hyper", "tokio", "nix"];
/// Packages of optional features: `mpwatch --no-default-features` has none of them. The packages of their formats identify the export
/// engines.
const OPTIONAL: &[&str] =
    &["mpwatch-control", "mpwatch-study", "opentelemetry-proto", "parquet", "prost", "rustls"];

fn metadata() -> Metadata {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo describes the workspace")
}

fn is_ours(dependency: &Dependency) -> bool {
    dependency.path.is_some()
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let metadata = metadata();
    let mut allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    allowed.insert(FIXTURES, &["mpwatch-model"]);
    allowed.insert(TESTKIT, &["mpwatch-lab"]);
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        if [BENCH, TESTS, FUZZ].contains(&package.name.as_str()) {
            continue;
        }
        let Some(allowed) = allowed.get(package.name.as_str()) else {
            wrong.push(format!(
                "{} is not in ARROWS of this test: add it there and to ARCHITECTURE.md",
                package.name
            ));
            continue;
        };
        let is_test_support = |used: &Dependency| {
            [FIXTURES, TESTKIT].contains(&used.name.as_str()) && used.kind == DependencyKind::Development
        };
        let used = package.dependencies.iter().filter(|used| is_ours(used) && !is_test_support(used));
        let forbidden = used.filter(|used| !allowed.contains(&used.name.as_str()));
        wrong.extend(forbidden.map(|used| format!("{} uses {}", package.name, used.name)));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_program_uses_every_crate_and_no_test_support() {
    let metadata = metadata();
    let users_of = |library: &str| -> BTreeSet<&str> {
        let uses = |used: &Dependency| used.name == library && used.kind == DependencyKind::Normal;
        let packages = metadata.packages.iter().filter(|package| package.dependencies.iter().any(uses));
        packages.map(|package| package.name.as_str()).collect()
    };
    for (library, _) in ARROWS.iter().take_while(|(name, _)| *name != "mpwatch") {
        assert!(users_of(library).contains("mpwatch"), "the program does not use {library}");
    }
    assert_eq!(users_of("mpwatch-lab"), BTreeSet::from(["mpwatch", STUDY, TESTKIT, BENCH, TESTS]));
    assert_eq!(users_of(STUDY), BTreeSet::from([BENCH, TESTS]), "users of the methods");
    assert_eq!(users_of(TESTKIT), BTreeSet::from([BENCH, TESTS]));
    assert_eq!(users_of(BENCH), BTreeSet::from([TESTS]));
    assert_eq!(users_of(FIXTURES), BTreeSet::from([BENCH, FUZZ, TESTS]));
    for last in [TESTS, FUZZ] {
        assert_eq!(users_of(last), BTreeSet::new());
    }
    assert_eq!(
        users_of("mpwatch"),
        BTreeSet::from([FUZZ, STUDY]),
        "the library of the program is for studies and fuzz targets only"
    );
}

/// Source files by their path from the workspace's root.
fn sources() -> BTreeMap<String, String> {
    let root = metadata().workspace_root.into_std_path_buf();
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    let named = paths.into_iter().filter_map(|path| {
        let name = path.strip_prefix(&root).unwrap().to_str()?.to_owned();
        is_rust(&name).then(|| (name, fs::read_to_string(&path).expect("a source file is text")))
    });
    let texts: BTreeMap<String, String> = named.collect();
    assert!(texts.len() > 100, "only {} source files were found", texts.len());
    texts
}

/// All files except files of builds and of version control.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace can be read") {
        let entry = entry.expect("an entry can be read");
        let name = entry.file_name();
        let kind = entry.file_type().expect("an entry has a type");
        if kind.is_dir() && !["target", ".git", "node_modules"].contains(&name.to_str().unwrap_or_default()) {
            collect(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

fn is_rust(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "rs")
}

/// Names of the packages that a package links, directly or through others, with these options of cargo.
fn linked_packages(package: &str, options: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(["--package", package])
        .args(options)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are text");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_pure_crates_build_without_kernel_database_and_web_server() {
    for pure in PURE {
        let linked = linked_packages(pure, &[]);
        assert!(linked.contains(*pure), "{linked:?}");
        let found: Vec<&&str> = NOT_PURE.iter().filter(|name| linked.contains(**name)).collect();
        assert!(found.is_empty(), "{pure} depends on {found:?}");
    }
}

#[test]
fn the_program_builds_without_control_study_tls_and_export_engines() {
    let minimal = linked_packages("mpwatch", &["--no-default-features"]);
    let found: Vec<&&str> = OPTIONAL.iter().filter(|name| minimal.contains(**name)).collect();
    assert!(found.is_empty(), "without its features, the program depends on {found:?}");
    let usual = linked_packages("mpwatch", &[]);
    assert!(usual.contains("mpwatch-control") && usual.contains("parquet"), "{usual:?}");
}

#[test]
fn unsafe_code_stands_only_where_it_is_allowed() {
    let allowed = |name: &str| UNSAFE_ALLOWED.iter().any(|place| name.starts_with(place));
    let mut found = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| !allowed(name)) {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| has_unsafe(line));
        found.extend(lines.map(|(number, line)| format!("{name}:{number}: {}", line.trim())));
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Whether a line of code has the keyword `unsafe` outside of comments and string literals.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let outside_texts = code.split('"').step_by(2);
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    outside_texts.flat_map(|part| part.split(|c| !is_word(c))).any(|word| word == "unsafe")
}

#[test]
fn the_search_for_unsafe_finds_the_keyword_and_nothing_else() {
    assert!(has_unsafe("    let x = unsafe { y };"));
    assert!(has_unsafe("pub unsafe fn x() {"));
    for harmless in ["// unsafe { }", "unsafe_code = 1", "say(\"unsafe\")", "#![deny(unsafe_code)]"] {
        assert!(!has_unsafe(harmless), "{harmless}");
    }
}
