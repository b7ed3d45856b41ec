// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is on record of the kernels that the tests run on: what each lacks, and how hard our programs are to verify there. One
//! file a series in `tests/fixtures/kernels`, written by a blessed run, compared by every other run, shown in README.md and
//! docs/kernel.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::hook::HOOKS;
use mpwatch_ebpf::support::OPTIONAL_FIELDS;

/// The record of one kernel. Its text has a line for each thing: a word that says what it is, and what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// Hooks and fields that it lacks, by name.
    pub missing: Vec<String>,
    /// Instructions that its verifier processed, by program.
    pub verified: BTreeMap<String, u32>,
}

impl Kernel {
    /// Reads a record; lines that say something else are passed over.
    pub fn parse(text: &str) -> Self {
        let mut kernel = Self::default();
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["kernel", release] => release.clone_into(&mut kernel.release),
                ["missing", what] => kernel.missing.push(what.to_owned()),
                ["verified", program, count] => {
                    kernel.verified.insert(program.to_owned(), count.parse().expect("a count"));
                }
                _ => {}
            }
        }
        kernel
    }

    /// The record as text.
    pub fn text(&self) -> String {
        let missing = self.missing.iter().map(|what| format!("missing {what}\n"));
        let verified = self.verified.iter().map(|(program, count)| format!("verified {program} {count}\n"));
        format!("kernel {}\n", self.release) + &missing.chain(verified).collect::<String>()
    }

    /// The first two numbers of its release, by which its record is called.
    pub fn series(&self) -> String {
        self.release.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
    }

    /// The record of a series, or `None`.
    pub fn on_record(series: &str) -> Option<Self> {
        fs::read_to_string(file(series)).ok().map(|text| Self::parse(&text))
    }

    /// Puts it on record. In a guest, whose files are gone with it, it is told to the host: see tests/vm/init.
    pub fn record(&self) {
        if in_guest() {
            self.text().lines().for_each(|line| println!("record {line}"));
        } else {
            fs::write(file(&self.series()), self.text()).expect("a record can be written");
        }
    }

    fn hardest(&self) -> Option<(&String, &u32)> {
        self.verified.iter().rev().max_by_key(|(_, count)| **count)
    }
}

/// Whether this is a guest of tests/vm.
pub fn in_guest() -> bool {
    Path::new("/tests/of-kernels").exists()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels")
}

fn file(series: &str) -> PathBuf {
    folder().join(format!("{series}.txt"))
}

/// All records, the oldest kernel first.
pub fn all_on_record() -> Vec<Kernel> {
    let entries = fs::read_dir(folder()).expect("the folder of records");
    let read = |path: PathBuf| Kernel::parse(&fs::read_to_string(path).expect("a record can be read"));
    let mut kernels: Vec<_> = entries.map(|entry| read(entry.expect("a record").path())).collect();
    kernels.sort_by_key(|kernel| {
        kernel.series().split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>()
    });
    kernels
}

/// What is not known without a hook or field.
fn costs(what: &str) -> &'static str {
    let hook = HOOKS.iter().find(|hook| hook.target == what).map(|hook| hook.costs);
    let field = OPTIONAL_FIELDS.iter().find(|field| field.path() == what).map(|field| field.costs);
    hook.or(field).unwrap_or("?")
}

/// For README.md: which kernels were tested, and what is not known on each.
pub fn support_table(kernels: &[Kernel]) -> String {
    let mut table = "| Linux | tested as | not known there | hardest program, instructions verified |\n|---|---|---|---|\n".to_owned();
    for kernel in kernels {
        let lacks: Vec<_> =
            kernel.missing.iter().map(|what| format!("{} (no `{what}`)", costs(what))).collect();
        let lacks = if lacks.is_empty() { "nothing".to_owned() } else { lacks.join("; ") };
        let hardest = kernel.hardest().map(|(program, count)| format!("`{program}`, {count}"));
        let _ = writeln!(
            table,
            "| {} | {} | {lacks} | {} |",
            kernel.series(),
            kernel.release,
            hardest.unwrap_or_default()
        );
    }
    table
}

/// For docs/kernel.md: what each program costs each kernel's verifier.
pub fn verifier_table(kernels: &[Kernel]) -> String {
    let series: Vec<_> = kernels.iter().map(Kernel::series).collect();
    let mut table =
        format!("| program | hook | {} |\n|---|---|{}\n", series.join(" | "), "---|".repeat(series.len()));
    for hook in HOOKS {
        let count =
            |kernel: &Kernel| kernel.verified.get(hook.program).map_or("-".to_owned(), ToString::to_string);
        let counts: Vec<_> = kernels.iter().map(count).collect();
        let _ = writeln!(table, "| `{}` | `{}` | {} |", hook.program, hook.target, counts.join(" | "));
    }
    table
}
