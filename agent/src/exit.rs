// SPDX-License-Identifier: MIT OR Apache-2.0
//! From an error to the exit code that scripts check and the one line that people read.

use std::io;
use std::process::ExitCode;

use mpwatch_ebpf::support::SupportError;
use mpwatch_ebpf::tracer::TracerError;
use mpwatch_lab::Error as LabError;

use crate::attach::AttachError;
use crate::error::{Failure, KERNEL, PERMISSION, RUNTIME, USAGE};

/// The exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(match error.downcast_ref::<TracerError>() {
        Some(TracerError::Unsupported(_) | TracerError::Support(SupportError::NoBtf { .. })) => KERNEL,
        _ if is_not_permitted(error) || is_lab_permission(error) => PERMISSION,
        _ => match error.downcast_ref::<AttachError>() {
            Some(AttachError::TracingOptions { .. }) => USAGE,
            _ => error.downcast_ref::<Failure>().map_or(RUNTIME, |failure| failure.code),
        },
    })
}

/// Whether tracing, or reading from the daemon, needs more privileges.
pub(crate) fn is_not_permitted(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<TracerError>(), Some(TracerError::Permission { .. }))
        || matches!(error.downcast_ref::<AttachError>(), Some(AttachError::Permission { .. }))
}

fn is_lab_permission(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<LabError>()).any(
        |error| matches!(error, LabError::Os { source, .. } if source.kind() == io::ErrorKind::PermissionDenied),
    )
}

/// The whole chain of causes as one line. A cause that an earlier message already contains is not repeated.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether the reader of our standard output closed it, as `head` does. This is not an error.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        // `serde_json::Error` hides the I/O error from the chain.
        let of_json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        let kind = of_json.or_else(|| cause.downcast_ref::<io::Error>().map(io::Error::kind));
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_recognized_below_context_and_inside_json_errors() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&closed().into()));
        assert!(is_closed_pipe(&anyhow::Error::new(serde_json::Error::io(closed())).context("writing")));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::StorageFull).into()));
    }
}
