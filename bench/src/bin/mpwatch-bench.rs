// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bench program; `./dev bench` builds and runs it as root. What it measures is in `mpwatch_bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("bench: needs root: it makes namespaces and traces. Run:  ./dev bench");
        return ExitCode::FAILURE;
    }
    match mpwatch_bench::command::run(std::env::args().skip(1), |text| print!("{text}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}
