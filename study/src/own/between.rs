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
        let here = || {
            std::env::current_exe().map_or_else(|_| "mpwatch".to_owned(), |path| path.display().to_string())
        };
        let default = || if self.command.is_empty() { here() } else { "mpwatch".to_owned() };
        let program = self.mpwatch.clone().unwrap_or_else(default);
        let request = ["study", "endpoint"].map(str::to_owned);
        self.command.iter().cloned().chain([program]).chain(request).collect()
    }
}

/// A run between the two machines.
#[derive(Clone, Debug)]
pub(crate) struct Between {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) traffic: TrafficSpec,
}
