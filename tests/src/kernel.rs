// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the kernels on which the tests run: the hooks and fields that a kernel lacks, and the number of instructions that its
//! verifier processes per program. There is one file per kernel series in `tests/fixtures/kernels`. A run with MPWATCH_BLESS writes the
//! file; every other run compares the kernel with it. docs/kernel.md has tables of the records.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::support::OPTIONAL_FIELDS;
use mpwatch_ebpf::support::hook::HOOKS;

/// The record of one kernel. As text it has one line per value; the first word of a line names the value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRecord {
    /// Release, as `uname -r` prints it.
    pub release: String,
    /// Names of missing hooks and fields.
    pub missing: Vec<String>,
    /// Number of instructions that the verifier processed, by program.
    pub verified: BTreeMap<String, u32>,
}

impl KernelRecord {
    /// Parses a record. Ignores unknown lines.
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

    /// The first two numbers of the release, and whether it is a kernel with `PREEMPT_RT` or for arm64. They name the file of the record.
    pub fn series(&self) -> String {
        let mut series = self.release.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        if self.release.contains("-rt-") {
            series += "-rt";
        }
        // Debian's name of the architecture.
        if self.release.ends_with("-arm64") {
            series += "-arm64";
        }
        series
    }

    /// Reads the record of a series. `None`: the series has no file.
    pub fn load(series: &str) -> Option<Self> {
        fs::read_to_string(file(series)).ok().map(|text| Self::parse(&text))
    }

    /// Writes the record. The files of a guest are discarded, so a guest prints it for the host (tests/vm/init).
    pub fn save(&self) {
        if in_guest() {
            self.text().lines().for_each(|line| println!("record {line}"));
        } else {
            fs::write(file(&self.series()), self.text()).expect("a record can be written");
        }
    }
}

/// Whether this is a guest of tests/vm.
pub fn in_guest() -> bool {
    Path::new("/tests/all-guests").exists()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels")
}

fn file(series: &str) -> PathBuf {
    folder().join(format!("{series}.txt"))
}

/// Reads all records, the oldest kernel first.
pub fn load_all() -> Vec<KernelRecord> {
    let entries = fs::read_dir(folder()).expect("the folder of records");
    let read = |path: PathBuf| KernelRecord::parse(&fs::read_to_string(path).expect("a record can be read"));
    let mut kernels: Vec<_> = entries.map(|entry| read(entry.expect("a record").path())).collect();
    kernels.sort_by_key(|kernel| {
        let series = kernel.series();
        let numbers: Vec<u32> = series.split(['.', '-']).map(|part| part.parse().unwrap_or(0)).collect();
        (numbers, series)
    });
    kernels
}

/// The figures that mpwatch cannot report without a hook or field.
fn costs(what: &str) -> &'static str {
    let hook = HOOKS.iter().find(|hook| hook.target == what).map(|hook| hook.costs);
    let field = OPTIONAL_FIELDS.iter().find(|field| field.path() == what).map(|field| field.costs);
    hook.or(field).unwrap_or("?")
}

/// Table for docs/kernel.md: the tested kernels, and the values that mpwatch cannot report on each.
pub fn support_table(kernels: &[KernelRecord]) -> String {
    let mut table =
        "| Linux | tested release | not available (missing kernel feature) |\n|---|---|---|\n".to_owned();
    for kernel in kernels {
        let lacks: Vec<_> = kernel.missing.iter().map(|what| format!("{} (`{what}`)", costs(what))).collect();
        let lacks = if lacks.is_empty() { "everything is available".to_owned() } else { lacks.join("; ") };
        let _ = writeln!(table, "| {} | {} | {lacks} |", kernel.series(), kernel.release);
    }
    table
}

/// Table for docs/kernel.md: number of instructions that the verifier of each kernel processes per program.
pub fn verifier_table(kernels: &[KernelRecord]) -> String {
    let series: Vec<_> = kernels.iter().map(KernelRecord::series).collect();
    let mut table =
        format!("| program | hook | {} |\n|---|---|{}\n", series.join(" | "), "---|".repeat(series.len()));
    for hook in HOOKS {
        let count = |kernel: &KernelRecord| {
            kernel.verified.get(hook.program).map_or("-".to_owned(), ToString::to_string)
        };
        let counts: Vec<_> = kernels.iter().map(count).collect();
        let _ = writeln!(table, "| `{}` | `{}` | {} |", hook.program, hook.target, counts.join(" | "));
    }
    table
}
