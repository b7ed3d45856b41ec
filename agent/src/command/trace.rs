// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the tracing options of a command line to a running tracer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpwatch_ebpf::tracer::Settings;
use mpwatch_engine::tracker::Closed;

use crate::cli::{CounterOptions, TraceOptions};
use crate::energy::meter::EnergyOptions;
use crate::live::{Live, Options};
use crate::paths;
use crate::session::TrackerSettings;

impl CounterOptions {
    pub(super) fn energy(&self) -> EnergyOptions {
        let Self { sysfs_root, power_file } = self.clone();
        let power_file = power_file.unwrap_or_else(|| PathBuf::from(paths::POWER_CURVE));
        EnergyOptions { sysfs_root, power_file, simulated: false }
    }
}

impl TraceOptions {
    /// Attaches to this machine's kernel.
    pub(super) fn start(&self, interval: Duration, stop: Arc<AtomicBool>) -> anyhow::Result<Live> {
        self.start_with(interval, self.energy.energy(), stop)
    }

    /// Likewise, with other energy counters than those of the options.
    pub(super) fn start_with(
        &self,
        interval: Duration,
        energy: EnergyOptions,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Live> {
        let defaults = Settings::default();
        let tracer = Settings {
            trace_tcp: self.tcp,
            ledger: !self.no_ledger,
            samples: !self.no_bottlenecks,
            ring_bytes: self.ring_size.unwrap_or(defaults.ring_bytes),
            overflow_bytes: self.overflow_size.unwrap_or(defaults.overflow_bytes),
            ..defaults
        };
        Live::start(&Options { interval, tracer, energy }, stop)
    }

    pub(super) fn tracker(&self, closed: Closed) -> TrackerSettings {
        TrackerSettings { closed, method: self.method.unwrap_or_default() }
    }
}
