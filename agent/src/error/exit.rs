// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exit code and the message of an error.

use std::io;
use std::process::ExitCode;

use mpwatch_ebpf::support::SupportError;
use mpwatch_ebpf::tracer::TracerError;
use mpwatch_lab::Error as LabError;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_store::StoreError;

use super::failure::{Failure, KERNEL, PERMISSION, RUNTIME, USAGE};
use crate::client::AttachError;

pub(crate) fn code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(match error.downcast_ref::<TracerError>() {
        Some(TracerError::Unsupported(_) | TracerError::Support(SupportError::NoBtf { .. })) => KERNEL,
        _ if is_not_permitted(error)
            || has(error, StoreError::is_denied)
            || has(error, |error| matches!(error, LabError::Os { source, .. } if is_denied(source))) =>
        {
            PERMISSION
        }
        _ => match error.downcast_ref::<AttachError>() {
            Some(AttachError::TracingOptions { .. }) => USAGE,
            _ => error.downcast_ref::<Failure>().map_or(RUNTIME, |failure| failure.code),
        },
    })
}

/// Whether one of the causes has this type and property.
fn has<T: std::error::Error + 'static>(error: &anyhow::Error, property: impl Fn(&T) -> bool) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref()).any(property)
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Whether tracing, or reading from the daemon, needs more privileges.
pub(crate) fn is_not_permitted(error: &anyhow::Error) -> bool {
    has(error, |error| matches!(error, TracerError::Permission { .. }))
        || has(error, |error| matches!(error, AttachError::Permission { .. }))
}

/// The error of a daemon, with advice if the system refused it an operation, such as listening. Messages about tracing have their own advice.
pub(crate) fn daemon_error(error: anyhow::Error) -> anyhow::Error {
    if is_not_permitted(&error) || !has(&error, is_denied) {
        return error;
    }
    let advice = "run the daemon as root, or as the service, whose user has cap_bpf, cap_perfmon, cap_sys_admin and cap_sys_ptrace: \
                  systemctl start mpwatch (docs/daemon.md)";
    Failure { code: PERMISSION, message: format!("{}; {advice}", message(&error)) }.into()
}

/// The error of a command that shows snapshots, with advice for unprivileged users: they can read from the daemon.
pub(crate) fn view_error(error: anyhow::Error) -> anyhow::Error {
    if !has(&error, |error| matches!(error, TracerError::Permission { .. })) {
        return error;
    }
    let message = format!("{}; or read from the daemon: {JOIN_GROUP}", message(&error));
    Failure { code: PERMISSION, message }.into()
}

/// How unprivileged users read from the daemon.
pub(crate) const JOIN_GROUP: &str = "start it as root (systemctl start mpwatch, or mpwatch daemon), join the group `mpwatch` (usermod -aG mpwatch USER) and log in again (docs/daemon.md)";

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
    // A file's name, or a damaged file's contents, must not send control sequences to the terminal.
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
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
    fn a_missing_privilege_has_its_exit_code_in_the_daemon_and_in_views() {
        let denied = anyhow::Error::new(io::Error::from(io::ErrorKind::PermissionDenied));
        let error = daemon_error(denied.context("cannot listen at /run/mpwatch/mpwatch.sock"));
        assert_eq!(code(&error), ExitCode::from(PERMISSION));
        let text = message(&error);
        assert!(
            text.starts_with("cannot listen at /run/mpwatch/mpwatch.sock: permission denied; run"),
            "{text}"
        );
        let database = Failure::at_start(true, "cannot open the database".to_owned());
        assert_eq!(code(&daemon_error(database.into())), ExitCode::from(PERMISSION));
        let other = daemon_error(io::Error::from(io::ErrorKind::AddrInUse).into());
        assert_eq!(code(&other), ExitCode::from(RUNTIME));
        let error = view_error(TracerError::Permission { what: "load".to_owned() }.into());
        assert_eq!(code(&error), ExitCode::from(PERMISSION));
        assert!(message(&error).contains("usermod -aG mpwatch"), "{error}");
    }

    #[test]
    fn an_error_does_not_send_control_sequences_to_the_terminal() {
        let error = anyhow::anyhow!("cannot open \u{1b}[31mx\u{7}.db\nuse another file");
        assert_eq!(message(&error), "cannot open \u{fffd}[31mx\u{fffd}.db\nuse another file");
    }

    #[test]
    fn a_closed_pipe_is_recognized_below_context_and_inside_json_errors() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&closed().into()));
        assert!(is_closed_pipe(&anyhow::Error::new(serde_json::Error::io(closed())).context("writing")));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::StorageFull).into()));
    }
}
