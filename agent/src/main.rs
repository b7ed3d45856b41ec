// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch`: observes Multipath TCP on the running kernel. The code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mpwatch::main()
}
