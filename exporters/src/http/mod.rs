// SPDX-License-Identifier: MIT OR Apache-2.0
//! The web server of the daemon: one thread with the only async runtime of the program. It serves GET on a few paths and reads no request
//! bodies. A client that sends garbage, stalls or never reads affects only its own connection.

mod clients;
mod response;
mod server;
mod site;
mod web_config;

pub use server::Server;
pub use site::Pages;
pub use web_config::{Access, WebConfigError};

#[cfg(test)]
mod tests;
