// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs that the program reads from files: the tree of energy counters, and a kernel's BTF.

use std::fs;

use mpwatch_ebpf::support::core_check;

/// Reads energy counters from a tree that replaces `/sys`: lines `PATH=TEXT`; at a line without `=`, a second passes.
pub(crate) fn powercap(lines: &str) {
    let root = tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
    mpwatch::fuzz::energy(root.path(), lines);
}

/// Reads the input as an ELF file with CO-RE records, such as our own object, and as a file for `mpwatch doctor --btf`.
pub(crate) fn btf(input: &[u8]) {
    let _ = core_check::accesses(input);
    let file = tempfile::NamedTempFile::new().unwrap_or_else(|error| panic!("no temporary file: {error}"));
    if fs::write(file.path(), input).is_ok() {
        let _ = core_check::check_file(file.path());
    }
}
