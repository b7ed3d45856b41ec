// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a tracer with the tracing options of a command line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpwatch_ebpf::tracer::TracerSettings;
use mpwatch_model::host::setup::{Label, by_name};

use crate::cli::TraceOptions;
use crate::error::Failure;
use crate::live::kernel::Live;
use crate::system::setup::namespace_sysctls;

/// The time between two snapshots: `given`, otherwise the shorter of the default and the step of `samples`.
pub(super) fn interval(
    given: Option<Duration>,
    default: Duration,
    samples: Option<Duration>,
) -> Result<Duration, Failure> {
    let step = samples.unwrap_or(Duration::MAX);
    match given {
        Some(interval) if step < interval => Err(Failure::usage(format!(
            "--samples {step:?} is less than --interval {interval:?}, and samples are taken from snapshots; use the same for both"
        ))),
        _ => Ok(given.unwrap_or(default.min(step))),
    }
}

/// Labels by name. Fails if two labels have the same name.
pub(super) fn labels_by_name(labels: &[Label]) -> Result<BTreeMap<String, String>, Failure> {
    by_name(labels.iter().cloned()).map_err(|error| Failure::usage(error.to_string()))
}

/// Adds labels to the description of the run, and the sysctls of `netns`. `None`: the sysctls of this namespace stay.
pub(super) fn describe(live: &mut Live, labels: BTreeMap<String, String>, netns: Option<&str>) {
    let sysctls = netns.and_then(namespace_sysctls);
    live.describe(|setup| {
        setup.labels = labels;
        if let Some(sysctls) = sysctls {
            setup.mptcp_sysctls = sysctls;
        }
    });
}

impl TraceOptions {
    /// Attaches to this machine's kernel.
    pub(crate) fn start(&self, interval: Duration, stop: Arc<AtomicBool>) -> anyhow::Result<Live> {
        let defaults = TracerSettings::default();
        let settings = TracerSettings {
            trace_tcp: self.tcp,
            ledger: self.ledger.unwrap_or(defaults.ledger),
            samples: !self.no_bottlenecks,
            ring_bytes: self.ring_size.unwrap_or(defaults.ring_bytes),
            overflow_bytes: self.overflow_size.unwrap_or(defaults.overflow_bytes),
            ..defaults
        };
        Live::start(interval, settings, &self.counters, self.budget, stop)
    }
}
