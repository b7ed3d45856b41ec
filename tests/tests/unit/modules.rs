// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules are layered: no module imports from a module that imports it, directly or through others, and no module imports from the file
//! of its parent. Types that two modules share belong in a third module, which both import.
//!
//! The test reads the text of the sources: paths that begin with `crate`, `super`, `self` or the name of a child module. Tests are exempt.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: &[&str] = &[
    "model",
    "ebpf",
    "engine",
    "control",
    "store",
    "report",
    "exporters",
    "tui",
    "lab",
    "agent",
    "study",
    "testkit",
    "bench",
];

/// Names of nested modules from the crate's root; empty: the root itself.
type Module = Vec<String>;

struct Crate {
    /// Source text of each module, without comments and tests.
    modules: BTreeMap<Module, String>,
}

impl Crate {
    fn read(name: &str) -> Self {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut files = Vec::new();
        collect(&src, &mut files);
        let module = |path: &PathBuf| {
            let mut parts: Module = path
                .strip_prefix(&src)
                .unwrap()
                .with_extension("")
                .iter()
                .map(|part| part.to_str().unwrap().to_owned())
                .collect();
            if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
                parts.pop();
            }
            parts
        };
        let is_tested = |module: &Module| module.iter().all(|part| part != "tests" && part != "bin");
        let texts =
            files.iter().map(|path| (module(path), without_tests(&fs::read_to_string(path).unwrap())));
        Self { modules: texts.filter(|(module, _)| is_tested(module)).collect() }
    }

    /// The modules that a module refers to.
    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let text = &self.modules[module];
        let children =
            self.modules.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
        let heads = ["crate", "super", "self"].map(str::to_owned);
        let heads: Vec<String> = children.filter_map(|child| child.last().cloned()).chain(heads).collect();
        let paths = heads.iter().flat_map(|head| paths_from(text, head));
        paths.filter_map(|path| self.resolve(module, &path)).filter(|target| target != module).collect()
    }

    /// The deepest module that a path names. `None`: the path leaves the crate.
    fn resolve(&self, from: &Module, path: &[String]) -> Option<Module> {
        let mut at = from.clone();
        for (index, segment) in path.iter().enumerate() {
            match segment.as_str() {
                "crate" if index == 0 => at.clear(),
                "self" if index == 0 => {}
                "super" => {
                    at.pop()?;
                }
                name => {
                    at.push(name.to_owned());
                    if !self.modules.contains_key(&at) {
                        at.pop();
                        return Some(at);
                    }
                }
            }
        }
        Some(at)
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The code before the first `#[cfg(test)] mod ...` or `#[cfg(all(test, ...))] mod ...`, without comments.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_test = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        if is_test && lines.peek().is_some_and(|next| next.contains("mod ")) {
            if lines.peek().is_some_and(|next| next.ends_with(';')) {
                lines.next();
                continue;
            }
            break;
        }
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// All paths in the text that begin with this name, with braces expanded.
fn paths_from(text: &str, head: &str) -> Vec<Vec<String>> {
    let pattern = format!("{head}::");
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$';
    // `pub(in crate::a)` is not an import.
    let is_import = |at: usize| !text[..at].ends_with(is_word) && !text[..at].ends_with("(in ");
    let starts = text.match_indices(&pattern).filter(|(at, _)| is_import(*at));
    let mut paths = Vec::new();
    for (at, _) in starts {
        expand(&mut text[at..].chars().peekable(), Vec::new(), &mut paths);
    }
    paths
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn expand(text: &mut Characters<'_>, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) {
    loop {
        while text.next_if(|c| c.is_whitespace()).is_some() {}
        if text.next_if_eq(&'{').is_some() {
            while text.peek().is_some_and(|c| *c != '}') {
                expand(text, path.clone(), paths);
                while text.next_if(|c| c.is_whitespace() || *c == ',').is_some() {}
            }
            text.next();
            return;
        }
        let mut name = String::new();
        while let Some(c) = text.next_if(|c| c.is_alphanumeric() || *c == '_') {
            name.push(c);
        }
        path.push(name);
        if text.next_if_eq(&':').is_none() || text.next_if_eq(&':').is_none() {
            // An alias, or the text after the path, is skipped up to the next item of a list.
            while text.next_if(|c| !matches!(c, ',' | '}' | ';' | '(' | ')' | '\n')).is_some() {}
            paths.push(path);
            return;
        }
    }
}

/// A cycle of imports from a module back to itself. `None`: there is no cycle.
fn cycle(from: &Module, imports: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<Module>> {
    let mut ways = vec![vec![from.clone()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        for next in &imports[way.last()?] {
            if next == from {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                ways.push([way.clone(), vec![next.clone()]].concat());
            }
        }
    }
    None
}

fn name(module: &Module) -> String {
    if module.is_empty() { "(root)".to_owned() } else { module.join("::") }
}

#[test]
fn no_module_imports_upwards() {
    let mut wrong = Vec::new();
    for crate_name in CRATES {
        let this = Crate::read(crate_name);
        let imports: BTreeMap<Module, BTreeSet<Module>> =
            this.modules.keys().map(|module| (module.clone(), this.imports(module))).collect();
        for (module, targets) in &imports {
            let parents = targets.iter().filter(|target| module.starts_with(target));
            wrong.extend(parents.map(|parent| {
                format!("{crate_name}: {} imports from its parent {}", name(module), name(parent))
            }));
            if let Some(way) = cycle(module, &imports) {
                let names: Vec<String> = way.iter().map(name).collect();
                wrong.push(format!("{crate_name}: {} -> {}", names.join(" -> "), names[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} modules import upwards:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn paths_are_found_with_their_braces_and_aliases() {
    let text = "use crate::a::{B, c::{D as E, F}, self};\nlet x = super::g::h(1); notcrate::z; crate::y";
    let found: Vec<String> = ["crate", "super"]
        .iter()
        .flat_map(|head| paths_from(text, head))
        .map(|path| path.join("/"))
        .collect();
    assert_eq!(found, ["crate/a/B", "crate/a/c/D", "crate/a/c/F", "crate/a/self", "crate/y", "super/g/h"]);
}
