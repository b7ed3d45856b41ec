// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmark program that `./dev bench` builds and runs.

use std::process::ExitCode;

use mpwatch_bench::{command, energy};

fn main() -> ExitCode {
    if energy::processes::run_as_child() {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if command::needs_root(&arguments) && !nix::unistd::geteuid().is_root() {
        eprintln!("bench: needs root to make namespaces and to trace. Run:  ./dev bench");
        return ExitCode::FAILURE;
    }
    match command::run(arguments.into_iter(), |text| print!("{text}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}
