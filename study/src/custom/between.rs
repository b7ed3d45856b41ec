// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data structures for two machines, the commands that reach them, and the traffic between them.

use std::net::IpAddr;

use mpwatch_lab::traffic::TrafficSpec;
use serde::Deserialize;

/// One machine and the command that reaches it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Endpoint {
    /// The command that starts a program on the machine, such as `ssh HOST`; the program is appended. Empty: this machine.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// The mpwatch program on the machine. `None`: this program on this machine, `mpwatch` in PATH on another machine.
    mpwatch: Option<String>,
    /// The server's address. `None` for the client.
    pub(super) address: Option<IpAddr>,
    /// The port on which the server listens. `None`: the default port.
    pub(super) port: Option<u16>,
}

impl Endpoint {
    /// The command that starts `mpwatch study endpoint` on the machine, as words.
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
