// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPTCP path-manager endpoints and limits of a namespace: which addresses a connection may use.
//! By way of `ip mptcp` (see `command.rs` for why); ids are always given, so deleting needs no lookup.

use crate::error::Result;
use crate::netns::Namespace;
use std::net::IpAddr;

/// What an endpoint's address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The client opens a further subflow from it.
    Subflow,
    /// As [`Purpose::Subflow`], to be used only when no regular subflow is left.
    BackupSubflow,
    /// The server announces it with `ADD_ADDR`.
    Signal,
    /// As [`Purpose::Signal`], and its subflows are backups.
    BackupSignal,
    /// The client opens subflows from it to every address of the peer.
    Fullmesh,
}

/// One endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address id, 1 to 255, unique in the namespace.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// What it is for.
    pub purpose: Purpose,
}

/// How many subflows and addresses a connection may have beyond the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Extra subflows, 0 to 8.
    pub subflows: u8,
    /// Accepted `ADD_ADDR`s, 0 to 8.
    pub add_addr_accepted: u8,
}

/// Adds an endpoint; connections that exist already act on it at once.
///
/// # Errors
/// When the id or the address is taken, or nine exist.
pub fn add(namespace: &Namespace, endpoint: Endpoint, interface: &str) -> Result<()> {
    let Endpoint { id, address, purpose } = endpoint;
    let flags = match purpose {
        Purpose::Subflow => "subflow",
        Purpose::BackupSubflow => "subflow backup",
        Purpose::Signal => "signal",
        Purpose::BackupSignal => "signal backup",
        Purpose::Fullmesh => "subflow fullmesh",
    };
    // `dev` pins the subflow's socket to that interface when the client opens it.
    namespace.ip(&[format!("mptcp endpoint add {address} dev {interface} id {id} {flags}")])
}

/// Deletes an endpoint; its subflows close, and the peer is told with `REMOVE_ADDR`.
///
/// # Errors
/// When there is no such id.
pub fn delete(namespace: &Namespace, id: u8) -> Result<()> {
    namespace.ip(&[format!("mptcp endpoint delete id {id}")])
}

/// Makes the subflows of an endpoint backups or regular ones again, and tells the peer (`MP_PRIO`).
///
/// # Errors
/// When there is no such id.
pub fn set_backup(namespace: &Namespace, id: u8, backup: bool) -> Result<()> {
    let flag = if backup { "backup" } else { "nobackup" };
    namespace.ip(&[format!("mptcp endpoint change id {id} {flag}")])
}

/// Sets the limits for connections to come.
///
/// # Errors
/// When a number is above 8.
pub fn set_limits(namespace: &Namespace, limits: Limits) -> Result<()> {
    namespace.ip(&[format!(
        "mptcp limits set subflow {} add_addr_accepted {}",
        limits.subflows, limits.add_addr_accepted
    )])
}
