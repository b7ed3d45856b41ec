// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch control eliminate`: traces this machine and removes extra subflows until Ctrl-C. Prints each step with its evidence.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::bail;
use mpwatch_control::driver::Driver;
use mpwatch_control::kernel::{self, Actuator};
use mpwatch_engine::tracker::Closed;
use mpwatch_model::flow::elimination::EliminationPolicy;
use mpwatch_model::unit::Nanos;

use crate::cli::EliminateOptions;
use crate::command::database::Database;
use crate::command::output::print;
use crate::command::trace::{describe, interval};
use crate::error::Failure;
use crate::live::session::{self, TrackerSettings};
use crate::system::stop_flag;

/// Default time between two snapshots. Verdicts are evaluated once per snapshot, so a longer interval would delay removals.
const DEFAULT_INTERVAL: Duration = Duration::from_millis(250);

pub(in crate::command) fn run(options: &EliminateOptions) -> anyhow::Result<()> {
    let EliminateOptions { store, filter, trace, .. } = options;
    if trace.no_bottlenecks {
        bail!(Failure::usage(
            "without detection of bottlenecks there are no extra subflows; omit --no-bottlenecks"
        ));
    }
    let mut actuator: Option<Actuator> = None;
    if options.yes {
        kernel::check(options.action).map_err(Failure::from)?;
        actuator = Some(Box::new(kernel::change));
    }
    filter.ensure_namespace()?;
    let interval = interval(options.interval, DEFAULT_INTERVAL, store.samples)?;
    let stop = stop_flag()?;
    let mut live = trace.start(interval, Arc::clone(&stop))?.without_backoff();
    describe(&mut live, BTreeMap::new(), filter.netns.as_deref());
    let mut database = Database::open(store.db.as_deref(), store.samples, &live.start)?;
    let policy = EliminationPolicy {
        action: options.action,
        stable: Nanos::from(options.stable),
        probability: options.probability,
        max_per_minute: options.max_per_minute,
        shared_caps: options.shared_caps,
    };
    let mut driver = Driver::new(policy, actuator);
    let journal = Rc::clone(&live.journal);
    eprintln!("mpwatch: {}; Ctrl-C stops", intent(options));
    let end = options.duration.map(|duration| Instant::now() + duration);
    session::run(&mut live, TrackerSettings::new(Closed::Forget, trace.method), None, |snapshot| {
        let goes_on = end.is_none_or(|end| Instant::now() < end) && !stop.load(Ordering::Relaxed);
        // The effect of a step is visible only in the next snapshot, so the last snapshot leads to no step.
        if goes_on {
            for step in driver.run(&snapshot, &|connection| filter.selects(connection)) {
                print(&if options.json { serde_json::to_string(&step.json())? } else { step.to_string() })?;
                journal.borrow_mut().push(step.record);
            }
        }
        database.offer(&Arc::new(snapshot));
        Ok(goes_on)
    })?;
    database.close(None)
}

fn intent(options: &EliminateOptions) -> String {
    let what = if options.yes {
        "removing extra subflows"
    } else {
        "printing which subflows would be removed; --yes removes them"
    };
    format!("{what} (action {})", options.action.as_str())
}
