// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's web server: one thread with the program's only async runtime. A client that sends garbage or stalls affects only itself.

mod clients;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod response;
mod server;
mod site;
mod web_config;

pub use server::Server;
pub use site::Pages;
pub use web_config::{Access, WebConfigError};

#[cfg(test)]
mod tests;
