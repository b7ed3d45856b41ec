// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only part of mpwatch that changes connections: [`driver::Driver`] removes extra subflows, [`congestion`] registers `mptcpd`. Removal
//! needs CAP_NET_ADMIN, and CAP_SYS_ADMIN to enter other network namespaces. mpwatch contains it only if built with the feature `control`.

pub mod congestion;
pub mod driver;
mod elimination;
pub mod kernel;
mod path_manager;
mod socket_diag;
pub mod worker;
