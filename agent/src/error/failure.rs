// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and the error that carries one. `exit.rs` gives every error its code.

/// A command failed while it ran.
pub const RUNTIME: u8 = 1;
/// The command line or the configuration is wrong.
pub const USAGE: u8 = 2;
/// The kernel lacks a feature that the command needs.
pub const KERNEL: u8 = 3;
/// A privilege is missing.
pub const PERMISSION: u8 = 4;
/// No connection has the requested id.
pub(crate) const NO_SUCH_CONNECTION: u8 = 5;

#[cfg(feature = "control")]
impl From<mpwatch_control::kernel::ControlError> for Failure {
    fn from(error: mpwatch_control::kernel::ControlError) -> Self {
        use mpwatch_control::kernel::ControlError::{Failed, Permission, Unsupported};
        let code = match error {
            Permission(_) => PERMISSION,
            Unsupported(_) => KERNEL,
            Failed(_) => RUNTIME,
        };
        Self { code, message: error.to_string() }
    }
}

/// An error with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What failed, and what to do.
    pub message: String,
}

impl Failure {
    /// The command line or a configuration is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    /// A program cannot start. `is_denied`: a privilege is missing.
    pub(crate) fn at_start(is_denied: bool, message: String) -> Self {
        Self { code: if is_denied { PERMISSION } else { RUNTIME }, message }
    }
}
