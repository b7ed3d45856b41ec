// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `mpwatch-study`, which `mpwatch study` runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    mpwatch_study::main()
}
