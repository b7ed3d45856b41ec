// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that results are of.

use std::time::Duration;

use mpwatch_model::host::machine::Host;
use serde::{Deserialize, Serialize};

use crate::cli::CounterOptions;
use crate::procfs;
use crate::setup;

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) host: Host,
    /// Model name of its CPU. Empty: unknown.
    pub(crate) cpu: String,
    pub(crate) cpus: u32,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> anyhow::Result<Self> {
        let kernel = nix::sys::utsname::uname()?;
        let [name, release] =
            [kernel.nodename(), kernel.release()].map(|text| text.to_string_lossy().into_owned());
        let host = Host {
            name,
            kernel: release,
            boot_id: procfs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            mpwatch: env!("CARGO_PKG_VERSION").to_owned(),
            ..Host::default()
        };
        let cpu = setup::read(Duration::ZERO).cpu_model.unwrap_or_default();
        Ok(Self { host, cpu, cpus: CounterOptions::default().hardware().cpus })
    }
}
