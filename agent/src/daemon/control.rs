// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes connections if the configuration enables it: removes extra subflows and registers `mptcpd`. Each step is logged, counted, and
//! added to the stream of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mpwatch_control::congestion::{self, Registration};
use mpwatch_control::driver::{Driver, StepReport};
use mpwatch_control::kernel::{self, Actuator};
use mpwatch_control::worker;
use mpwatch_model::filter::Filter;
use mpwatch_model::flow::elimination::{EliminationMode, EliminationPolicy, EliminationStep};
use mpwatch_model::metric::service::EliminationCounts;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Nanos;

use super::sink::SnapshotSink;
use super::status::Status;
use crate::config::Config;
use crate::error::Failure;
use crate::live::kernel::Journal;
use crate::system::privilege;

pub(super) struct Elimination {
    driver: Driver,
    filter: Filter,
    journal: Journal,
    status: Arc<Status>,
    /// Set by SIGTERM or SIGINT: the current snapshot is then the last one.
    stop: Arc<AtomicBool>,
}

/// Registers `mptcpd`, if configured. Must be called while this thread still has all capabilities.
pub(super) fn register(config: &Config) -> Result<Option<Registration>, Failure> {
    let registration = config.congestion.then(congestion::register).transpose()?;
    if registration.is_some() {
        tracing::info!("the congestion control mptcpd is registered: sockets may select it");
    }
    Ok(registration)
}

pub(super) fn unregister(registration: Registration) {
    registration.end();
    tracing::info!("mptcpd is unregistered; sockets that use it keep it until they close");
}

impl Elimination {
    /// Call while this thread still has all capabilities. Fails without a capability or kernel support. `None`: elimination is off.
    pub(super) fn start(
        config: &Config,
        journal: Journal,
        status: Arc<Status>,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Option<Self>> {
        let actuator: Option<Actuator> = match config.eliminate {
            EliminationMode::Off => return Ok(None),
            EliminationMode::DryRun => None,
            EliminationMode::On => {
                kernel::check(config.eliminate_action).map_err(Failure::from)?;
                Some(worker::start(privilege::drop_to)?)
            }
        };
        let policy = EliminationPolicy {
            action: config.eliminate_action,
            stable: Nanos::from(config.eliminate_stable),
            max_per_minute: config.eliminate_max_per_minute,
            shared_caps: config.eliminate_shared_caps,
            ..EliminationPolicy::default()
        };
        tracing::warn!(
            mode = config.eliminate.as_str(),
            action = config.eliminate_action.as_str(),
            "elimination is enabled: extra subflows are removed (dry-run: only reported)"
        );
        // The counters of elimination are exported from now on.
        status.update(|service| service.elimination = Some(EliminationCounts::default()));
        let filter = config.eliminate_filter.clone();
        Ok(Some(Self { driver: Driver::new(policy, actuator), filter, journal, status, stop }))
    }
}

impl SnapshotSink for Elimination {
    fn consume(&mut self, snapshot: &Arc<Snapshot>) {
        // The effect of a step is visible only in the next snapshot, so the last snapshot leads to no step.
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        for step in self.driver.run(snapshot, &|connection| self.filter.matches(connection)) {
            log(&step);
            self.status.update(|service| {
                service.elimination.iter_mut().for_each(|counts| counts.add(&step.record.step));
            });
            self.journal.borrow_mut().push(step.record);
        }
    }
}

fn log(report: &StepReport) {
    let event = serde_json::to_string(&report.json()).unwrap_or_default();
    let step = &report.record.step;
    if step.is_failure() || matches!(step, EliminationStep::Removed(_)) {
        tracing::warn!(event, "elimination: {report}");
    } else {
        tracing::info!(event, "elimination: {report}");
    }
}
