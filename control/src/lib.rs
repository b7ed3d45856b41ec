// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only part of mpwatch that changes connections: [`driver::Driver`] removes extra subflows, [`congestion`] registers `mptcpd`. Removal
//! needs CAP_NET_ADMIN, and CAP_SYS_ADMIN to enter other network namespaces. An optional feature of the program: `control`.

pub mod congestion;
pub mod driver;
mod elimination;
pub mod kernel;
mod netlink;
mod path_manager;
mod socket_diag;
pub mod worker;

/// Why connections cannot be changed, and what to do. The caller derives an exit code from the variant.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A capability is missing.
    #[error("{0}")]
    Permission(String),
    /// The kernel lacks something.
    #[error("{0}")]
    Unsupported(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}
