// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a report over a period from a file, on any machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::host::machine::Losses;
use mpwatch_model::host::setup::Label;
use mpwatch_model::snapshot::{Report, Run, SCHEMA};
use mpwatch_model::unit::Nanos;
use rusqlite::Connection as Database;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::StoreError;
use crate::lock::is_held;
use crate::open::{self, Stamp};
use crate::schema::columns::damaged;
use crate::schema::names::NameIndex;
use crate::schema::record::whole_nanos;
use crate::schema::rows::{RunRow, UNFINISHED};
use crate::schema::sql::{Loader, rows, select};
use crate::schema::values::{nanos, timestamp};
use crate::schema::views::KNOWN_UNTIL;

/// A period of time. `None`: unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Omit connections that closed or were last observed earlier.
    pub since: Option<Timestamp>,
    /// Omit connections that were opened or first observed later.
    pub until: Option<Timestamp>,
}

/// A database file, open for reading.
pub struct Archive {
    pub(crate) path: PathBuf,
    pub(crate) database: Database,
    /// `None`: the file had a log when it was opened, so a process may have been writing it.
    stamp: Option<Stamp>,
}

impl Archive {
    /// Opens a file. Another process may be writing it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (database, stamp) = open::for_reading(path)?;
        Ok(Self { path: path.to_owned(), database, stamp })
    }

    /// Reads the connections of a period and samples of their subflows, of the runs with this label (`None`: of all runs), in parts of at most
    /// `size` connections, because a whole report may not fit into memory. Each part is a report; there is at least one part. Energy and
    /// CPU time of the machine are totals of a run, so a report has them only if it covers exactly one run. A connection that several runs
    /// observed belongs to the last of them.
    ///
    /// # Errors
    /// If the file cannot be read, if a program began to write it during the call, or if `each` fails.
    pub fn parts<E: From<StoreError>>(
        &self,
        period: Period,
        label: Option<&Label>,
        size: usize,
        mut each: impl FnMut(Report, CounterSeries) -> Result<(), E>,
    ) -> Result<(), E> {
        // Selects numbers only, because SQLite sorts the selected columns in memory.
        let ids = format!(
            "SELECT c.id, r.to_ns FROM connection AS c JOIN run AS r ON r.id = c.run JOIN netns AS n ON n.id = c.netns
            WHERE {KNOWN_UNTIL} >= ? AND c.began_ns <= ?
            ORDER BY CASE WHEN c.seen_open THEN c.began_ns END, n.cookie, ifnull(c.token, 0), c.birth"
        );
        let mut read = || -> rusqlite::Result<Result<(), E>> {
            // In one transaction, all queries read the same state of the file.
            let database = self.database.unchecked_transaction()?;
            let since = period.since.map_or(i64::MIN, nanos);
            let until = period.until.map_or(i64::MAX, nanos);
            let (report, runs) = self.without_connections(since, until, label)?;
            let loader = Loader::new(&database)?;
            let mut query = database.prepare(&ids)?;
            let mut numbers = query.query([since, until])?;
            let (mut connections, mut samples) = (Vec::new(), CounterSeries::new());
            while let Some(number) = numbers.next()? {
                let Some((row, connection)) = loader.load(&database, number.get(0)?)? else { continue };
                if label.is_some() && !runs.contains(&row.run) {
                    continue;
                }
                if connections.len() == size {
                    let part = report.clone().with(std::mem::take(&mut connections));
                    if let Err(error) = each(part, std::mem::take(&mut samples)) {
                        return Ok(Err(error));
                    }
                }
                loader.add_samples(&database, row.id, &connection, &mut samples)?;
                connections.push(extended(connection, number.get::<_, i64>(1)? - nanos(row.began)));
            }
            Ok(each(report.with(connections), samples))
        };
        read().map_err(|error| StoreError::read(&self.path, &error))??;
        if self.is_unchanged() { Ok(()) } else { Err(StoreError::changed(&self.path).into()) }
    }

    /// The distinct labels of all runs, by name.
    pub fn labels(&self) -> Result<Vec<Label>, StoreError> {
        let query =
            "SELECT DISTINCT label.key, label.value FROM run, json_each(run.labels) AS label ORDER BY 1, 2";
        let label = |row: &rusqlite::Row<'_>| Ok(Label { name: row.get(0)?, value: row.get(1)? });
        let read = || self.database.prepare(query)?.query_map([], label)?.collect::<rusqlite::Result<_>>();
        read().map_err(|error| StoreError::read(&self.path, &error))
    }

    /// False: the file was opened without locks, and a process has begun to write it since then.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.stamp.is_none() || self.stamp == open::stamp_without_writer(&self.path)
    }

    /// The report without its connections, and the numbers of its runs.
    fn without_connections(
        &self,
        since: i64,
        until: i64,
        label: Option<&Label>,
    ) -> rusqlite::Result<(Report, Vec<i64>)> {
        // Checked before and after reading, because a writer may begin or end meanwhile.
        let was_written = is_held(&self.path);
        let runs = select::<RunRow>(&self.database, "WHERE to_ns >= ? AND from_ns <= ? ORDER BY id")?;
        let mut runs: Vec<RunRow> = rows(&self.database, &runs, [since, until], &NameIndex::default())?;
        runs.retain(|run| label.is_none_or(|label| run.setup.labels.get(&label.name) == Some(&label.value)));
        let mut report =
            empty_report(&runs, since, until).map_err(|error| damaged(0, format!("a run: {error}")))?;
        let last: i64 =
            self.database.query_row("SELECT ifnull(max(id), 0) FROM run", [], |row| row.get(0))?;
        let unfinished = |run: &&RunRow| run.id == last && run.cut_short.as_deref() == Some(UNFINISHED);
        let running = runs.last().filter(unfinished).filter(|_| was_written || is_held(&self.path));
        report.run.cut_short = cut_short(&runs, running.map(|run| run.id));
        Ok((report, runs.iter().map(|run| run.id).collect()))
    }
}

/// Extends an outage, or the failure of a path, to the last snapshot of the run, `known_ns` after the connection began: such a connection hardly
/// changes, so its row is written rarely.
fn extended(mut connection: Connection, known_ns: i64) -> Connection {
    let more = Nanos(known_ns.saturating_sub(whole_nanos(connection.age_s)).max(0).unsigned_abs());
    let has_failed = connection.subflows.iter().any(Subflow::is_failed);
    if connection.is_open() && (has_failed || connection.outage_since.is_some()) {
        connection.age_s += more.seconds();
        let subflows = connection.subflows.iter_mut().filter(|subflow| subflow.closed.is_none());
        let observed = subflows.map(|subflow| &mut subflow.observed).chain(&mut connection.observed);
        observed.for_each(|observed| observed.duration += more);
    }
    connection
}

/// Why the record of a period is incomplete. `None`: it is complete. `running`: the run that is being written, which counts as complete.
fn cut_short(runs: &[RunRow], running: Option<i64>) -> Option<String> {
    let ended = runs.iter().filter(|run| Some(run.id) != running);
    let reasons: Vec<&str> = ended.filter_map(|run| run.cut_short.as_deref()).collect();
    let reason = match reasons.first()? {
        &UNFINISHED => {
            "mpwatch was killed, or its disk was full at the end; connections open then have the counters of their last row"
        }
        reason => reason,
    };
    Some(match runs.len() {
        1 => reason.to_owned(),
        all => format!("{} of {all} runs: {reason}", reasons.len()),
    })
}

/// A report without connections: the host of the last run, and the losses of all runs.
fn empty_report(runs: &[RunRow], since: i64, until: i64) -> serde_json::Result<Report> {
    let from = runs.iter().map(|run| nanos(run.from)).min().unwrap_or_default().max(since);
    let to = runs.iter().map(|run| nanos(run.to)).max().unwrap_or_default().min(until);
    let whole = match runs {
        [run] if since <= nanos(run.from) && until >= nanos(run.to) => Some(run),
        _ => None,
    };
    let mut losses: Losses = total(runs.iter().map(|run| run.losses))?;
    // The report of a recording omitted them; the database has them.
    losses.connections_unreported = 0;
    for run in runs {
        losses.store_snapshots_dropped += run.snapshots_dropped;
        losses.store_flows_lost += run.flows_lost;
        losses.store_samples_lost += run.samples_lost;
    }
    let setups = runs.iter().map(|run| run.setup.clone());
    Ok(Report {
        schema: SCHEMA,
        run: Run {
            host: runs.last().map(|run| run.host.clone()).unwrap_or_default(),
            setup: Arc::new(setups.reduce(|setup, other| setup.in_common(&other)).unwrap_or_default()),
            from: timestamp(from),
            to: timestamp(to.max(from)),
            ..Run::default()
        },
        counters: total(runs.iter().map(|run| run.counters.clone()))?,
        cpus: whole.and_then(|run| run.cpus.clone()),
        energy: whole.and_then(|run| run.energy.clone()),
        losses,
        run_starts: runs.iter().map(|run| run.from).filter(|_| runs.len() > 1).collect(),
        ..Report::default()
    })
}

/// The sum of structures with counters, field by field.
fn total<T: Serialize + DeserializeOwned + Default>(
    mut all: impl Iterator<Item = T>,
) -> serde_json::Result<T> {
    let first = serde_json::to_value(all.next().unwrap_or_default())?;
    let sum = all.try_fold(first, |sum, counters| {
        Ok::<_, serde_json::Error>(plus(sum, serde_json::to_value(counters)?))
    });
    serde_json::from_value(sum?)
}

fn plus(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Object(mut a), Value::Object(b)) => {
            for (name, value) in b {
                let before = a.remove(&name).unwrap_or_default();
                a.insert(name, plus(before, value));
            }
            Value::Object(a)
        }
        (Value::Number(a), Value::Number(b)) => {
            a.as_u64().unwrap_or_default().saturating_add(b.as_u64().unwrap_or_default()).into()
        }
        (a, Value::Null) => a,
        (_, b) => b,
    }
}
