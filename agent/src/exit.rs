// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes: scripts tell by them what kind of thing went wrong.

use std::io;
use std::process::ExitCode;

use mpwatch_ebpf::support::SupportError;
use mpwatch_ebpf::tracer::TracerError;

use crate::attach::AttachError;
use crate::config::ConfigError;

/// 1: something failed while running.
pub(crate) const RUNTIME: u8 = 1;
/// 2: wrong usage; of the command line by clap, of the configuration here.
const USAGE: u8 = 2;
/// 3: the kernel lacks something.
pub(crate) const KERNEL: u8 = 3;
/// 4: not permitted.
pub(crate) const PERMISSION: u8 = 4;
/// 5: no such flow.
const NO_SUCH_FLOW: u8 = 5;

/// No connection has the id that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("no connection matches `{id}`; `mpwatch ls` lists the ids of those that are open now")]
pub(crate) struct NoSuchFlow {
    /// What was asked for.
    pub(crate) id: String,
}

/// There are no energy counters that could be measured with.
#[derive(Debug, thiserror::Error)]
#[error("there is nothing to measure with: {why}")]
pub(crate) struct NoCounters {
    /// Why, and what to do.
    pub(crate) why: String,
}

/// The exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> ExitCode {
    let code = match error.downcast_ref::<TracerError>() {
        Some(TracerError::Unsupported(_) | TracerError::Support(SupportError::NoBtf { .. })) => KERNEL,
        Some(TracerError::Permission { .. }) => PERMISSION,
        _ if error.is::<ConfigError>() => USAGE,
        _ if matches!(error.downcast_ref::<AttachError>(), Some(AttachError::HowToTrace { .. })) => USAGE,
        _ if matches!(error.downcast_ref::<AttachError>(), Some(AttachError::Permission { .. })) => {
            PERMISSION
        }
        _ if error.is::<NoSuchFlow>() => NO_SUCH_FLOW,
        _ if error
            .downcast_ref::<NoCounters>()
            .is_some_and(|none| none.why.contains("permission denied")) =>
        {
            PERMISSION
        }
        _ if error.is::<NoCounters>() => KERNEL,
        _ if is_permission(error) => PERMISSION,
        _ => RUNTIME,
    };
    ExitCode::from(code)
}

/// Whether somebody with more rights could do it.
pub(crate) fn is_not_permitted(error: &anyhow::Error) -> bool {
    let of_tracer = matches!(error.downcast_ref::<TracerError>(), Some(TracerError::Permission { .. }));
    of_tracer || matches!(error.downcast_ref::<AttachError>(), Some(AttachError::Permission { .. }))
}

/// The whole chain of causes as one line; a cause that the message before it already names is not repeated.
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

/// Whether the reader of our output went away, as `head` does: no error of ours.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        // One that writes JSON keeps it to itself.
        let of_json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        let kind = of_json.or_else(|| cause.downcast_ref::<io::Error>().map(io::Error::kind));
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

fn is_permission(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref::<mpwatch_lab::Error>(), Some(mpwatch_lab::Error::Os { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_error_however_it_was_found_out() {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&gone().into()));
        assert!(is_closed_pipe(&anyhow::Error::new(serde_json::Error::io(gone())).context("writing")));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::StorageFull).into()));
    }
}
