// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two machines, how they are reached, and what is sent between them. Plain data.

use std::net::IpAddr;

use mpwatch_lab::traffic::TrafficSpec;
use serde::Deserialize;

/// How one machine is reached.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Endpoint {
    /// Starts a program there; it is appended. Empty: on this machine.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// The program there. `None`: the one in PATH, or on this machine the running one.
    mpwatch: Option<String>,
    /// The address that the client connects to. The client has none.
    pub(super) address: Option<IpAddr>,
    /// The port that the server listens on.
    pub(super) port: Option<u16>,
}

impl Endpoint {
    /// The command with its arguments.
    pub(super) fn words(&self) -> Vec<String> {
        let this = std::env::current_exe().ok().filter(|_| self.command.is_empty() && self.mpwatch.is_none());
        let program = match this {
            Some(program) => vec![program.display().to_string()],
            None => vec![self.mpwatch.clone().unwrap_or_else(|| "mpwatch".to_owned()), "study".to_owned()],
        };
        self.command.iter().cloned().chain(program).chain(["endpoint".to_owned()]).collect()
    }
}

/// A run between the two machines.
#[derive(Clone, Debug)]
pub(crate) struct Between {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) traffic: TrafficSpec,
}
