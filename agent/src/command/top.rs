// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch top`: the live view on a terminal; with `--batch`, or without a terminal, prints every snapshot.

use std::sync::Arc;

use mpwatch_engine::tracker::Closed;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_tui::table;

use super::database::Database;
use super::live_view::{self, DEFAULT_INTERVAL, count_down};
use super::output::{on_a_terminal, print_line, print_table};
use super::trace::{describe, interval, labels_by_name};
use crate::cli::TopOptions;
use crate::client::Daemon;
use crate::error::exit;
use crate::live::session::{self, TrackerSettings};
use crate::live::source::EventSource as _;
use crate::screen::ensure_cursor;
use crate::system::stop_flag;

/// Width of the lines of `--batch`, in characters.
const WIDTH: usize = 160;

pub(super) fn run(options: &TopOptions) -> anyhow::Result<()> {
    let stop = stop_flag()?;
    if !options.batch && on_a_terminal() {
        ensure_cursor("mpwatch top --batch")?;
        return live_view::run(options, &stop);
    }
    let view = &options.view;
    let labels = labels_by_name(&options.labels)?;
    let mut left = options.count.unwrap_or(u64::MAX);
    let mut print_next = |snapshot: Snapshot| {
        let snapshot = view.filter.apply(snapshot);
        if options.json {
            print_line(&snapshot)?;
        } else {
            print_table(&table(&snapshot, WIDTH))?;
        }
        anyhow::Ok(count_down(&mut left))
    };
    // The run in a database begins when tracing begins, so `--db` needs a new tracer instead of the daemon.
    if options.db.is_none()
        && let Some(mut daemon) = Daemon::find(view, options.interval.is_some(), &stop)?
    {
        while let Some(snapshot) = daemon.next()? {
            if !print_next(snapshot)? {
                break;
            }
        }
        return Ok(());
    }
    view.filter.ensure_namespace()?;
    let interval = interval(options.interval, DEFAULT_INTERVAL, options.samples)?;
    let mut live = view.trace.start(interval, stop).map_err(exit::view_error)?;
    describe(&mut live, labels, view.filter.netns.as_deref());
    let mut database = Database::open(options.db.as_deref(), options.samples, live.start())?;
    session::run(&mut live, TrackerSettings::new(Closed::Forget, view.trace.method), None, |snapshot| {
        let snapshot = Arc::new(snapshot);
        database.offer(&snapshot);
        print_next(Arc::unwrap_or_clone(snapshot))
    })?;
    database.close(None)
}
