// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes connections of the running kernel, inside their network namespaces.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use caps::{CapSet, Capability};
use mpwatch_ebpf::namespace;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{Candidate, EliminationAction, Removal};

use super::{path_manager, socket_diag};

/// Maximum wait for an acknowledgement on the subflow that is kept.
const MAX_WAIT: Duration = Duration::from_millis(500);
const READ_INTERVAL: Duration = Duration::from_millis(5);

/// A check or a change failed: the reason, with advice. The caller derives an exit code from the variant.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A capability is missing.
    #[error("{0}")]
    Permission(String),
    /// The kernel lacks a required feature.
    #[error("{0}")]
    Unsupported(String),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

/// Checks that the process has CAP_NET_ADMIN, and that the kernel supports the action.
pub fn check(action: EliminationAction) -> Result<(), ControlError> {
    if !caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(false) {
        let message = "removing subflows needs cap_net_admin, which this process lacks; run it as root, or let it only report what it would \
                       remove (without --yes; control.eliminate = \"dry-run\")";
        return Err(ControlError::Permission(message.to_owned()));
    }
    let (is_supported, message) = match action {
        EliminationAction::Close => (
            Ok(socket_diag::can_abort()),
            "cannot close subflows: this kernel was built without CONFIG_INET_DIAG_DESTROY (SOCK_DESTROY); use --action backup, or \
             another kernel",
        ),
        EliminationAction::Backup => (
            path_manager::exists(),
            "cannot set subflows to backup: this kernel has no generic netlink family `mptcp_pm` (CONFIG_MPTCP)",
        ),
    };
    match is_supported {
        Ok(true) => Ok(()),
        Ok(false) => Err(ControlError::Unsupported(message.to_owned())),
        Err(error) => Err(ControlError::Failed(error.to_string())),
    }
}

/// A change of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Remove the subflow.
    Apply,
    /// End the backup role that [`Self::Apply`] gave the subflow.
    Undo,
}

/// Changes a connection, or returns the reason for the failure as text. `false`: the subflow to keep makes no progress now, so that nothing was
/// changed. Its path may have failed since the snapshot that caused the removal, or only be congested.
pub type Actuator = Box<dyn FnMut(&Connection, &Removal, Change) -> Result<bool, String>>;

/// Changes a connection. The calling thread must hold the capabilities.
pub fn change(connection: &Connection, removal: &Removal, change: Change) -> Result<bool, String> {
    let removed = &removal.removed;
    if (removal.action, change) == (EliminationAction::Close, Change::Apply) {
        let close = || {
            let is_working = makes_progress(&removal.kept)?;
            if is_working {
                socket_diag::abort(removed.subflow.cookie, removed.local, removed.remote)?;
            }
            Ok(is_working)
        };
        return inside(connection, close).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "its socket is gone, or the kernel module tcp_diag cannot be loaded (modprobe tcp_diag)"
                    .to_owned()
            }
            _ => explain(&error),
        });
    }
    let token = connection.token.ok_or("the token of the connection is unknown")?;
    let is_backup = change == Change::Apply;
    let set = || path_manager::set_backup(token, removed.local, removed.remote, is_backup).map(|()| true);
    inside(connection, set).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            "the kernel changes the role of a single subflow only in connections of the userspace path manager (sysctl \
             net.mptcp.path_manager); use --action close"
                .to_owned()
        }
        _ => explain(&error),
    })
}

/// Whether the kept subflow makes progress now. If not, the subflow to be removed may be the only one that works.
fn makes_progress(kept: &Candidate) -> io::Result<bool> {
    let read = || {
        let progress = socket_diag::progress(kept.subflow.cookie, kept.local, kept.remote);
        progress.map_err(|error| io::Error::other(format!("cannot read the subflow to keep: {error}")))
    };
    let (before, began) = (read()?, Instant::now());
    while began.elapsed() < MAX_WAIT {
        if read()?.is_made_since(&before) {
            return Ok(true);
        }
        thread::sleep(READ_INTERVAL);
    }
    Ok(false)
}

fn explain(error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error.to_string();
    }
    "not permitted: this needs cap_net_admin, and cap_sys_admin in another network namespace".to_owned()
}

/// Runs `work` in the network namespace of the connection.
fn inside(connection: &Connection, work: impl FnOnce() -> io::Result<bool> + Send) -> io::Result<bool> {
    let namespace = namespace::all().into_iter().find(|namespace| namespace.inode == connection.netns_inode);
    let namespace = namespace.ok_or_else(|| {
        io::Error::other(format!("its network namespace {} has no process and no name", connection.netns))
    })?;
    namespace::inside(&namespace, work)
}
