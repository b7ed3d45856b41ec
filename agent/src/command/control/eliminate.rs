// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch control eliminate`: traces this machine and removes extra subflows until Ctrl-C. Prints each step with its evidence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mpwatch_engine::elimination::Policy;
use mpwatch_engine::tracker::Closed;
use mpwatch_model::unit::Nanos;

use crate::cli::EliminateOptions;
use crate::command::database::Database;
use crate::command::output::print;
use crate::command::trace::{describe, interval};
use crate::control::driver::{Driver, Happened, Mode};
use crate::control::journal::Journal;
use crate::control::kernel::{self, Kernel};
use crate::error::Failure;
use crate::session;
use crate::signals::stop_flag;
use crate::source::EventSource as _;

/// As often as verdicts are evaluated: a longer one only delays a removal.
const DEFAULT_INTERVAL: Duration = Duration::from_millis(250);

pub(in crate::command) fn run(options: &EliminateOptions) -> anyhow::Result<()> {
    let EliminateOptions { store, filter, trace, .. } = options;
    if trace.no_bottlenecks {
        let message = "without detection of bottlenecks there are no extra subflows; omit --no-bottlenecks";
        return Err(Failure::usage(message.to_owned()).into());
    }
    let mode = if options.yes { Mode::On } else { Mode::DryRun };
    if mode == Mode::On {
        kernel::check(options.action)?;
    }
    filter.warn_about_unknown_namespace();
    let interval = interval(options.interval, DEFAULT_INTERVAL, store.samples)?;
    let stop = stop_flag()?;
    let mut live = trace.start(interval, Arc::clone(&stop))?.without_backoff();
    describe(&mut live, BTreeMap::new(), filter.netns.as_deref());
    let mut database = Database::open(store.db.as_deref(), store.samples, live.start())?;
    let mut driver = Driver::new(policy(options), mode, Box::new(Kernel));
    let journal = Journal::default();
    let mut source = journal.around(&mut live);
    eprintln!("mpwatch: {}; Ctrl-C stops", intent(options));
    let end = options.duration.map(|duration| Instant::now() + duration);
    session::run(&mut source, trace.tracker(Closed::Forget), None, |snapshot| {
        let goes_on = end.is_none_or(|end| Instant::now() < end) && !stop.load(Ordering::Relaxed);
        // What happened at the last snapshot would be in no later one, so not in the database either.
        if goes_on {
            for happened in driver.step(&snapshot, &|connection| filter.selects(connection)) {
                print(&line(&happened, options.json)?)?;
                journal.add(happened.record);
            }
        }
        if let Some(database) = &mut database {
            database.offer(&Arc::new(snapshot));
        }
        Ok(goes_on)
    })?;
    database.map(|database| database.close(None)).transpose()?;
    Ok(())
}

fn policy(options: &EliminateOptions) -> Policy {
    Policy {
        action: options.action,
        stable: Nanos(u64::try_from(options.stable.as_nanos()).unwrap_or(u64::MAX)),
        probability: options.probability,
        max_per_minute: options.max_per_minute,
    }
}

fn intent(options: &EliminateOptions) -> String {
    let what = if options.yes {
        "removing extra subflows"
    } else {
        "printing which subflows would be removed; --yes removes them"
    };
    format!("{what} (action {})", options.action.as_str())
}

/// An event for people or for programs.
fn line(happened: &Happened, json: bool) -> anyhow::Result<String> {
    if json {
        return Ok(serde_json::to_string(&happened.event())?);
    }
    Ok(happened.to_string())
}
