// SPDX-License-Identifier: MIT OR Apache-2.0
//! Carries out what was decided, in the network namespace of the connection.

use std::io;

use caps::{CapSet, Capability};
use mpwatch_ebpf::namespace;
use mpwatch_model::flow::elimination::{EliminationAction, Removal};

use super::actuator::{Actuator, Target};
use super::{path_manager, socket_diag};
use crate::error::{Failure, KERNEL, PERMISSION};

/// Checks that the process may act and that the kernel can.
///
/// # Errors
/// With exit code 4 without CAP_NET_ADMIN, with exit code 3 if the kernel lacks what the action needs.
pub(crate) fn check(action: EliminationAction) -> anyhow::Result<()> {
    if !caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(false) {
        let message = "removing subflows needs cap_net_admin, which this process lacks; run it as root, or let it only report what it would \
                       remove (without --yes; control.eliminate = \"dry-run\")";
        return Err(Failure { code: PERMISSION, message: message.to_owned() }.into());
    }
    let (works, lacks) = match action {
        EliminationAction::Close => (
            socket_diag::can_abort()?,
            "cannot close subflows: this kernel was built without CONFIG_INET_DIAG_DESTROY (SOCK_DESTROY); use --action backup, or \
             another kernel",
        ),
        EliminationAction::Backup => (
            path_manager::exists()?,
            "cannot set subflows to backup: this kernel has no generic netlink family `mptcp_pm` (CONFIG_MPTCP)",
        ),
    };
    if works { Ok(()) } else { Err(Failure { code: KERNEL, message: lacks.to_owned() }.into()) }
}

/// The running kernel, from a thread that holds the capabilities.
pub(crate) struct Kernel;

impl Actuator for Kernel {
    fn apply(&mut self, target: &Target, removal: &Removal) -> Result<(), String> {
        match removal.action {
            EliminationAction::Close => close(target, removal).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    "its socket is gone, or the kernel module tcp_diag cannot be loaded (modprobe tcp_diag)"
                        .to_owned()
                }
                _ => explain(&error),
            }),
            EliminationAction::Backup => set_backup(target, removal, true),
        }
    }

    fn undo(&mut self, target: &Target, removal: &Removal) -> Result<(), String> {
        set_backup(target, removal, false)
    }
}

fn close(target: &Target, removal: &Removal) -> io::Result<()> {
    let removed = &removal.removed;
    inside(target, || socket_diag::abort(removed.subflow.cookie, removed.local, removed.remote))
}

fn set_backup(target: &Target, removal: &Removal, backup: bool) -> Result<(), String> {
    let Some(token) = target.token else { return Err("the token of the connection is unknown".to_owned()) };
    let removed = &removal.removed;
    let changed = inside(target, || path_manager::set_backup(token, removed.local, removed.remote, backup));
    changed.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            "the kernel changes the role of a single subflow only in connections of the userspace path manager (sysctl \
             net.mptcp.path_manager); use --action close"
                .to_owned()
        }
        _ => explain(&error),
    })
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "not permitted: this needs cap_net_admin, and cap_sys_admin in another network namespace"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

/// Runs `work` in the network namespace of the connection.
fn inside<T: Send>(target: &Target, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let found = namespace::all().into_iter().find(|found| found.inode == target.netns_inode);
    let found = found.ok_or_else(|| {
        io::Error::other(format!("its network namespace {} has no process and no name", target.netns))
    })?;
    namespace::inside(&found, work)
}
