// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the pictures in the documents. `./dev pictures` builds this program and runs it as root.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "docs/images".to_owned());
    match mpwatch_bench::pictures::draw_all(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pictures: {folder}: {error}");
            ExitCode::FAILURE
        }
    }
}
