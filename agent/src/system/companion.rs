// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `mpwatch-study`, which has the studies and the published detection methods. mpwatch replaces itself
//! by this program for `mpwatch study` and for a published method. The program then runs this library with the published methods.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use mpwatch_engine::bottleneck::NewMethod;
use mpwatch_model::flow::bottleneck::DetectionMethod;

use crate::error::{Failure, RUNTIME};

const PROGRAM: &str = "mpwatch-study";
/// Subcommand of `mpwatch-study` that runs mpwatch with the published methods.
pub(crate) const MPWATCH: &str = "mpwatch";

static PUBLISHED: OnceLock<NewMethod> = OnceLock::new();

/// Gives this process the published detection methods.
pub(crate) fn provide_methods(new: NewMethod) {
    PUBLISHED.get_or_init(|| new);
}

/// How to create a published method. `None`: the method is the default one, or this process has no published methods.
pub(crate) fn published(method: DetectionMethod) -> Option<NewMethod> {
    PUBLISHED.get().copied().filter(|_| !method.is_default())
}

/// Continues as `mpwatch-study`, with the same arguments, if this process does not have the method.
pub(crate) fn require(method: DetectionMethod) -> Result<(), Failure> {
    if method.is_default() || published(method).is_some() {
        return Ok(());
    }
    let arguments = std::iter::once(MPWATCH.into()).chain(std::env::args_os().skip(1));
    Err(replace_process(arguments.collect(), &format!("the detection method `{}`", method.as_str())))
}

/// Replaces this process by `mpwatch-study`, found in the folder of this program or in PATH. Returns only if that fails. `what`: the
/// feature that needs the program, for the message.
pub(crate) fn replace_process(arguments: Vec<OsString>, what: &str) -> Failure {
    let neighbour = std::env::current_exe().ok().map(|program| program.with_file_name(PROGRAM));
    let program = neighbour.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(arguments).exec();
    let message = if error.kind() == io::ErrorKind::NotFound {
        format!(
            "{what} needs the program {PROGRAM}; install the package {PROGRAM}, or build it with `cargo build --release -p {PROGRAM}` \
             and put it next to mpwatch or into PATH"
        )
    } else {
        format!("cannot run {}: {error}", program.display())
    };
    Failure { code: RUNTIME, message }
}
