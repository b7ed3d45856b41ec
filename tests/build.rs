// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the BPF program of the test root_congestion.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const PROGRAM: &str = "tests/congestion/step.bpf.c";
const INCLUDED: &str = "../ebpf/src/congestion/arithmetic.bpf.h";

fn main() {
    println!("cargo:rerun-if-changed={PROGRAM}");
    println!("cargo:rerun-if-changed={INCLUDED}");
    let variable = |name| env::var(name).unwrap_or_default();
    // For asm/types.h: clang does not search Debian's multiarch directory for the target `bpf`.
    let types = format!("/usr/include/{}-linux-gnu", variable("HOST").split('-').next().unwrap_or_default());
    let mut builder = SkeletonBuilder::new();
    builder.source(PROGRAM).obj(PathBuf::from(variable("OUT_DIR")).join("step.bpf.o"));
    builder.clang_args(["-Wall", "-Wextra", "-Werror", "-mcpu=v3", "-idirafter", &types]);
    builder.build().unwrap_or_else(|error| panic!("compiling {PROGRAM}: {error}"));
}
