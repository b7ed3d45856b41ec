// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch-study`, which `mpwatch study` runs. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mpwatch_study::main()
}
