// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPTCP path-manager endpoints and limits of a namespace, which determine the addresses that a connection may use.
//! The lab sets them with `ip mptcp` (`command.rs` explains why). The lab chooses all ids, so that deleting needs no lookup.

use crate::error::Result;
use crate::netns::Namespace;
use std::net::IpAddr;

/// Purpose of an endpoint's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The client opens an additional subflow from this address.
    Subflow,
    /// As [`Purpose::Subflow`], but the subflows are backups.
    BackupSubflow,
    /// The server announces this address with `ADD_ADDR`.
    Signal,
    /// As [`Purpose::Signal`], but the subflows are backups.
    BackupSignal,
    /// The client opens subflows from this address to every address of the peer.
    Fullmesh,
}

/// One endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address id, 1 to 255, unique in the namespace.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// The purpose of the address.
    pub purpose: Purpose,
}

/// Limits of additional subflows and addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of subflows of a connection besides the initial subflow, 0 to 8.
    pub subflows: u8,
    /// Maximum number of `ADD_ADDR`s that a connection accepts, 0 to 8.
    pub add_addr_accepted: u8,
}

/// Adds an endpoint. Open connections use it at once.
///
/// # Errors
/// If the id or the address is in use, or there are eight endpoints already.
pub fn add(namespace: &Namespace, endpoint: Endpoint, interface: &str) -> Result<()> {
    let Endpoint { id, address, purpose } = endpoint;
    let flags = match purpose {
        Purpose::Subflow => "subflow",
        Purpose::BackupSubflow => "subflow backup",
        Purpose::Signal => "signal",
        Purpose::BackupSignal => "signal backup",
        Purpose::Fullmesh => "subflow fullmesh",
    };
    // `dev` binds the socket of a subflow to the interface when the client opens the subflow.
    namespace.ip(&[format!("mptcp endpoint add {address} dev {interface} id {id} {flags}")])
}

/// Deletes an endpoint. The kernel closes the endpoint's subflows and sends `REMOVE_ADDR` to the peer.
///
/// # Errors
/// If there is no endpoint with this id.
pub fn delete(namespace: &Namespace, id: u8) -> Result<()> {
    namespace.ip(&[format!("mptcp endpoint delete id {id}")])
}

/// Changes the backup flag of an endpoint's subflows. The kernel sends `MP_PRIO` to the peer.
///
/// # Errors
/// If there is no endpoint with this id.
pub fn set_backup(namespace: &Namespace, id: u8, backup: bool) -> Result<()> {
    let flag = if backup { "backup" } else { "nobackup" };
    namespace.ip(&[format!("mptcp endpoint change id {id} {flag}")])
}

/// Sets the limits of future connections.
///
/// # Errors
/// If a number is above 8.
pub fn set_limits(namespace: &Namespace, limits: Limits) -> Result<()> {
    namespace.ip(&[format!(
        "mptcp limits set subflow {} add_addr_accepted {}",
        limits.subflows, limits.add_addr_accepted
    )])
}
