// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of the lab.
//! Every variant names the operation and the object, and its message ends with what to do.
//! It does not decide whether a failure is fatal: that is the caller's.

use std::io;
use std::time::Duration;

/// What can go wrong while building or driving a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {operation} {object}: {source}; {}", advice(source))]
    Os {
        /// What was tried, an English verb phrase.
        operation: &'static str,
        /// What it was tried on: a namespace, an address, a file.
        object: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// One of the programs `ip` and `tc` refused.
    #[error(
        "`{program}` failed on `{input}`: {stderr}; check that the kernel has this feature (`mpwatch doctor`)"
    )]
    Command {
        /// Full path of the program.
        program: String,
        /// What it was asked to do.
        input: String,
        /// What it wrote on standard error.
        stderr: String,
    },
    /// A needed program or kernel feature is not there.
    #[error("{what} is missing: {advice}")]
    Missing {
        /// The program or feature.
        what: String,
        /// How to get it.
        advice: &'static str,
    },
    /// Something that was waited for did not happen in time.
    #[error(
        "gave up waiting for {what} after {waited:?}; the machine may be overloaded, or the path is dead"
    )]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
    },
    /// A request that makes no sense, such as path 5 of 2.
    #[error("{what}; {advice}")]
    Invalid {
        /// What was asked.
        what: String,
        /// What would be accepted.
        advice: &'static str,
    },
    /// A lab thread panicked; the panic message went to standard error.
    #[error("lab thread `{thread}` panicked; its message is above, please report it")]
    Panicked {
        /// The thread's name.
        thread: String,
    },
}

/// Result with the lab's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err`: wraps an [`io::Error`] or a [`nix::Error`] with operation and object.
    pub(crate) fn os<S: Into<io::Error>>(
        operation: &'static str,
        object: impl Into<String>,
    ) -> impl FnOnce(S) -> Self {
        let object = object.into();
        move |source| Self::Os { operation, object, source: source.into() }
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "run as root (a lab needs CAP_SYS_ADMIN and CAP_NET_ADMIN)",
        Some(libc::ENOENT | libc::ENOPROTOOPT | libc::EPROTONOSUPPORT | libc::EOPNOTSUPP) => {
            "the running kernel lacks this feature (`mpwatch doctor` says which)"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (`ulimit -n`)",
        Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH) => "the path is dead",
        _ => "try again, and report it if it persists",
    }
}
