// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the BPF program of the test root_congestion.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "tests/congestion/step.bpf.c";
const INCLUDED: &str = "../ebpf/src/congestion/arithmetic.bpf.h";

fn main() {
    println!("cargo:rerun-if-changed={PROGRAM}");
    println!("cargo:rerun-if-changed={INCLUDED}");
    let variable = |name| env::var(name).unwrap_or_default();
    // For asm/types.h: clang does not search Debian's multiarch directory for the target `bpf`.
    let types = format!("/usr/include/{}-linux-gnu", variable("HOST").split('-').next().unwrap_or_default());
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-g", "-O2", "-c", "-Wall", "-Wextra", "-Werror", "-mcpu=v3"]);
    clang.args(["-fno-stack-protector", "-idirafter", &types, PROGRAM, "-o"]);
    clang.arg(PathBuf::from(variable("OUT_DIR")).join("step.bpf.o"));
    let status = clang.status().unwrap_or_else(|error| panic!("starting clang: {error}"));
    assert!(status.success(), "compiling {PROGRAM} failed, see above");
}
