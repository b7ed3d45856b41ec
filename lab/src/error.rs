// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab's error type. Every variant names the operation and its object; the messages end with advice.

use std::io;
use std::time::Duration;

/// An error while building or using a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {operation} {object}: {source}; {}", advice(source))]
    Os {
        /// The operation, an English verb phrase.
        operation: &'static str,
        /// The object of the operation: a namespace, an address, a file.
        object: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// `ip`, `tc`, `ss` or `nft` failed.
    #[error(
        "`{program}` failed on `{input}`: {stderr}; check that the kernel has this feature (`mpwatch doctor`)"
    )]
    Command {
        /// Full path of the program.
        program: String,
        /// The arguments, or the line of the batch that failed.
        input: String,
        /// The output on standard error.
        stderr: String,
    },
    /// A program or kernel feature is missing.
    #[error("{what} is missing: {advice}")]
    Missing {
        /// The program or feature.
        what: String,
        /// How to install or enable it.
        advice: &'static str,
    },
    /// A condition did not become true in time.
    #[error(
        "timed out after {waited:?} waiting for {what}; the machine may be overloaded, or the path has failed"
    )]
    Timeout {
        /// The condition.
        what: String,
        /// The time that was waited.
        waited: Duration,
    },
    /// An invalid request, such as path 5 of 2.
    #[error("{what}; {advice}")]
    Invalid {
        /// The request.
        what: String,
        /// Advice: a valid request.
        advice: &'static str,
    },
    /// A thread of the lab panicked. The panic message went to standard error.
    #[error("thread `{thread}` of the lab panicked; please report this with the panic message above")]
    Panicked {
        /// The thread's name.
        thread: String,
    },
}

/// Result with the lab's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err`: adds operation and object to an [`io::Error`] or a [`nix::Error`].
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
        Some(libc::EPERM | libc::EACCES) => {
            "run as root (network namespaces need CAP_SYS_ADMIN and CAP_NET_ADMIN)"
        }
        Some(libc::ENOENT | libc::ENOPROTOOPT | libc::EPROTONOSUPPORT | libc::EOPNOTSUPP) => {
            "the running kernel lacks this feature (`mpwatch doctor` names it)"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (`ulimit -n`)",
        Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH) => "the path has failed",
        _ => "try again; please report an error that persists",
    }
}
