// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the machine on which a study runs.

use std::fs;

use mpwatch::shared;
use mpwatch_model::host::machine::Host;
use serde::{Deserialize, Serialize};

/// The description of a machine in results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) host: Host,
    /// Model name of the CPU. Empty: unknown.
    pub(crate) cpu: String,
    pub(crate) cpus: u32,
}

impl Machine {
    /// Describes this machine.
    pub(crate) fn this() -> anyhow::Result<Self> {
        let kernel = nix::sys::utsname::uname()?;
        let [name, release] =
            [kernel.nodename(), kernel.release()].map(|text| text.to_string_lossy().into_owned());
        let host = Host {
            name,
            kernel: release,
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
            mpwatch: env!("CARGO_PKG_VERSION").to_owned(),
            ..Host::default()
        };
        Ok(Self { host, cpu: shared::cpu_model().unwrap_or_default(), cpus: shared::cpus() })
    }
}
