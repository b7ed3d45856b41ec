// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the tracing options of a command line to a running tracer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpwatch_ebpf::tracer::Settings;
use mpwatch_engine::tracker::Closed;

use crate::cli::TraceOptions;
use crate::live::Live;
use crate::session::TrackerSettings;

impl TraceOptions {
    /// Attaches to this machine's kernel.
    pub(super) fn start(&self, interval: Duration, stop: Arc<AtomicBool>) -> anyhow::Result<Live> {
        let defaults = Settings::default();
        let settings = Settings {
            trace_tcp: self.tcp,
            ledger: self.ledger().unwrap_or(defaults.ledger),
            samples: !self.no_bottlenecks,
            ring_bytes: self.ring_size.unwrap_or(defaults.ring_bytes),
            overflow_bytes: self.overflow_size.unwrap_or(defaults.overflow_bytes),
            ..defaults
        };
        Live::start(interval, settings, &self.counters, stop)
    }

    pub(super) fn tracker(&self, closed: Closed) -> TrackerSettings {
        TrackerSettings { closed, method: self.method.unwrap_or_default() }
    }
}
