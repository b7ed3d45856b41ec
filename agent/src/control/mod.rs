// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only part of mpwatch that changes connections of others: it removes extra subflows, as `engine::elimination` decides. Needs
//! CAP_NET_ADMIN, and CAP_SYS_ADMIN to enter other network namespaces.

pub(crate) mod actuator;
pub(crate) mod driver;
pub(crate) mod journal;
pub(crate) mod kernel;
mod netlink;
mod path_manager;
mod socket_diag;
pub(crate) mod switch;
pub(crate) mod worker;
