// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of tracing, with messages for users.

use crate::support::kernel::SupportError;

/// An error of tracing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the fields")]
pub enum TracerError {
    /// This kernel lacks features that mpwatch needs.
    #[error("this kernel cannot be traced: {}. `mpwatch doctor` lists what is needed", .0.join("; "))]
    Unsupported(Vec<String>),
    /// The kernel's BTF cannot be read.
    #[error(transparent)]
    Support(#[from] SupportError),
    /// A capability is missing.
    #[error(
        "not permitted to {what}: run as root, or grant the capabilities with `sudo setcap cap_bpf,cap_perfmon,cap_sys_admin,cap_sys_ptrace+ep /usr/bin/mpwatch` (the path of the program)"
    )]
    Permission { what: String },
    /// libbpf or the kernel refused for another reason, or a read failed.
    #[error("cannot {what}: {source}")]
    Bpf { what: String, source: libbpf_rs::Error },
}

/// Converts an error of libbpf or of a system call. `what` completes the sentence "cannot ...".
pub(crate) fn bpf_error<E: Into<libbpf_rs::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> TracerError {
    let what = what.into();
    move |error| {
        let source = error.into();
        if is_not_permitted(&source) {
            TracerError::Permission { what }
        } else {
            TracerError::Bpf { what, source }
        }
    }
}

/// EPERM means a missing capability, EACCES a verifier rejection. libbpf-rs has one kind for both; only the text distinguishes them.
fn is_not_permitted(error: &libbpf_rs::Error) -> bool {
    let is_rejected = format!("{error:#}").contains(&format!("os error {}", nix::libc::EACCES));
    error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !is_rejected
}

/// Whether the kernel lacked descriptors or memory, or was interrupted, so that a retry may succeed. libbpf-rs has the error number only in its
/// text.
pub(crate) fn is_shortage(error: &libbpf_rs::Error) -> bool {
    use nix::libc::{EAGAIN, EINTR, EMFILE, ENFILE, ENOMEM};
    let text = format!("{error:#}");
    [EAGAIN, EINTR, EMFILE, ENFILE, ENOMEM].iter().any(|code| text.contains(&format!("(os error {code})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::ErrorExt as _;

    #[test]
    fn a_program_that_the_verifier_rejects_is_not_a_missing_capability() {
        let error = |code| libbpf_rs::Error::from_raw_os_error(code).context("failed to load");
        assert!(is_not_permitted(&error(nix::libc::EPERM)));
        assert!(!is_not_permitted(&error(nix::libc::EACCES)));
        assert!(!is_not_permitted(&error(nix::libc::EINVAL)));
    }

    #[test]
    fn a_shortage_passes_and_a_refusal_does_not() {
        let error = |code| libbpf_rs::Error::from_raw_os_error(code).context("failed to attach");
        for code in [nix::libc::ENOMEM, nix::libc::EMFILE, nix::libc::ENFILE, nix::libc::EINTR] {
            assert!(is_shortage(&error(code)), "{code}");
        }
        assert!(!is_shortage(&error(nix::libc::EINVAL)) && !is_shortage(&error(nix::libc::EPERM)));
    }
}
