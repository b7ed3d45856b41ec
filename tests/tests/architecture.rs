// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that the compiler does not check: which crate may use which, where `unsafe` is allowed, the licence line of every file,
//! and its maximum length.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand};

/// The crates of the workspace that each crate may use. The tests may use all.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("mpwatch-model", &[]),
    ("mpwatch-lab", &[]),
    ("mpwatch-ebpf", &["mpwatch-model"]),
    ("mpwatch-tui", &["mpwatch-model"]),
    ("mpwatch-exporters", &["mpwatch-model"]),
    ("mpwatch", &["mpwatch-model", "mpwatch-ebpf", "mpwatch-tui", "mpwatch-exporters", "mpwatch-lab"]),
];
const TESTS: &str = "mpwatch-tests";
/// Where `unsafe` is allowed, as prefixes of paths.
const UNSAFE_ALLOWED: &[&str] = &["ebpf/", "lab/src/sys.rs"];
/// Maximum number of lines of a source file.
const MAX_FILE_LENGTH: usize = 500;

fn metadata() -> Metadata {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo metadata works")
}

fn is_workspace_crate(dependency: &Dependency) -> bool {
    dependency.path.is_some()
}

#[test]
fn crates_use_only_the_crates_that_they_may_use() {
    let metadata = metadata();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED_DEPENDENCIES.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        if package.name.as_str() == TESTS {
            continue;
        }
        let Some(allowed) = allowed.get(package.name.as_str()) else {
            wrong.push(format!(
                "{} is not in ALLOWED_DEPENDENCIES: add it there and to ARCHITECTURE.md",
                package.name
            ));
            continue;
        };
        // A crate may depend on itself to enable features in its tests.
        let used =
            package.dependencies.iter().filter(|used| is_workspace_crate(used) && used.name != *package.name);
        let forbidden = used.filter(|used| !allowed.contains(&used.name.as_str()));
        wrong.extend(forbidden.map(|used| format!("{} uses {}", package.name, used.name)));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_program_uses_every_crate_and_no_crate_uses_the_tests() {
    let metadata = metadata();
    let users_of = |name: &str| -> BTreeSet<&str> {
        let uses = |used: &Dependency| used.name == name && used.kind == DependencyKind::Normal;
        let packages = metadata.packages.iter().filter(|package| package.dependencies.iter().any(uses));
        packages.map(|package| package.name.as_str()).collect()
    };
    for (name, _) in &ALLOWED_DEPENDENCIES[..ALLOWED_DEPENDENCIES.len() - 1] {
        assert!(users_of(name).contains("mpwatch"), "the program does not use {name}");
    }
    assert_eq!(users_of("mpwatch-lab"), BTreeSet::from(["mpwatch", TESTS]));
    assert_eq!(users_of(TESTS), BTreeSet::new());
}

/// Source files, by their path relative to the workspace.
fn sources() -> BTreeMap<String, String> {
    let root = metadata().workspace_root.into_std_path_buf();
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    let named = paths.into_iter().filter_map(|path| {
        let name = path.strip_prefix(&root).unwrap().to_str()?.to_owned();
        is_source(&name).then(|| (name, fs::read_to_string(&path).expect("a source file is text")))
    });
    let texts: BTreeMap<String, String> = named.collect();
    assert!(texts.len() > 100, "only {} source files were found", texts.len());
    texts
}

/// Collects all files except build output and version control.
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

fn is_source(name: &str) -> bool {
    let scripts = ["dev", ".ci/run", "tests/refresh-btf"];
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    scripts.contains(&name) || extension.is_some_and(|extension| ["rs", "c", "h", "sh"].contains(&extension))
}

fn is_rust(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "rs")
}

#[test]
fn every_source_file_has_a_licence_line() {
    let marked = |text: &str| text.lines().take(3).any(|line| line.contains("SPDX-License-Identifier:"));
    let sources = sources();
    let unmarked: Vec<&String> =
        sources.iter().filter(|(_, text)| !marked(text)).map(|(name, _)| name).collect();
    assert!(unmarked.is_empty(), "no SPDX line in the first three lines: {unmarked:?}");
}

#[test]
fn no_source_file_is_too_long() {
    let lengths = sources().into_iter().map(|(name, text)| (name, text.lines().count()));
    let long: Vec<(String, usize)> = lengths.filter(|(_, lines)| *lines > MAX_FILE_LENGTH).collect();
    assert!(long.is_empty(), "more than {MAX_FILE_LENGTH} lines, split by subject: {long:?}");
}

#[test]
fn unsafe_code_is_only_where_it_is_allowed() {
    let allowed = |name: &str| UNSAFE_ALLOWED.iter().any(|prefix| name.starts_with(prefix));
    let mut found = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| is_rust(name) && !allowed(name)) {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| has_unsafe(line));
        found.extend(lines.map(|(number, line)| format!("{name}:{number}: {}", line.trim())));
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Whether a line contains the keyword outside of comments and string literals.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let outside_strings = code.split('"').step_by(2);
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    outside_strings.flat_map(|part| part.split(|c| !is_word(c))).any(|word| word == "unsafe")
}

#[test]
fn the_search_for_unsafe_finds_only_the_keyword() {
    assert!(has_unsafe("    let x = unsafe { y };"));
    assert!(has_unsafe("pub unsafe fn x() {"));
    for harmless in ["// unsafe { }", "unsafe_code = 1", "print(\"unsafe\")", "#![deny(unsafe_code)]"] {
        assert!(!has_unsafe(harmless), "{harmless}");
    }
}
