// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removal of extra subflows by the daemon, off by default: what happened is logged, counted, and added to the stream of events.

use std::sync::Arc;

use mpwatch_engine::elimination::Policy;
use mpwatch_model::filter::Filter;
use mpwatch_model::flow::elimination::EliminationStep;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Nanos;

use super::status::Status;
use crate::config::Config;
use crate::control::actuator::Actuator;
use crate::control::driver::{Driver, Happened, Mode};
use crate::control::journal::Journal;
use crate::control::kernel::{self, Kernel};
use crate::control::switch::Switch;
use crate::control::worker::Worker;

pub(super) struct Elimination {
    driver: Driver,
    filter: Filter,
    journal: Journal,
    status: Arc<Status>,
}

impl Elimination {
    /// Must be called while this thread still has all capabilities. `None`: it is off.
    ///
    /// # Errors
    /// If subflows shall be removed and the daemon may not do that, or the kernel cannot.
    pub(super) fn start(
        config: &Config,
        journal: Journal,
        status: Arc<Status>,
    ) -> anyhow::Result<Option<Self>> {
        let (mode, actuator): (Mode, Box<dyn Actuator>) = match config.eliminate {
            Switch::Off => return Ok(None),
            Switch::DryRun => (Mode::DryRun, Box::new(Kernel)),
            Switch::On => {
                kernel::check(config.eliminate_action)?;
                (Mode::On, Box::new(Worker::start()?))
            }
        };
        let policy = Policy {
            action: config.eliminate_action,
            stable: Nanos(u64::try_from(config.eliminate_stable.as_nanos()).unwrap_or(u64::MAX)),
            max_per_minute: config.eliminate_max_per_minute,
            ..Policy::default()
        };
        tracing::warn!(
            mode = config.eliminate.as_str(),
            action = config.eliminate_action.as_str(),
            "extra subflows are removed (off: never, dry-run: only reported)"
        );
        status.elimination_is_on();
        let filter = config.eliminate_filter.clone();
        Ok(Some(Self { driver: Driver::new(policy, mode, actuator), filter, journal, status }))
    }

    /// Decides on a snapshot and acts.
    pub(super) fn take(&mut self, snapshot: &Snapshot) {
        for happened in self.driver.step(snapshot, &|connection| self.filter.matches(connection)) {
            log(&happened);
            self.status.eliminated(&happened.record.step);
            self.journal.add(happened.record);
        }
    }
}

fn log(happened: &Happened) {
    let event = serde_json::to_string(&happened.event()).unwrap_or_default();
    let step = &happened.record.step;
    if step.is_failure() || matches!(step, EliminationStep::Removed(_)) {
        tracing::warn!(event, "elimination: {happened}");
    } else {
        tracing::info!(event, "elimination: {happened}");
    }
}
