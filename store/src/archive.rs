// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a store: the report over a period, from the file alone, on any machine.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mpwatch_model::energy::SnapshotEnergy;
use mpwatch_model::host::{Host, Losses};
use mpwatch_model::series::{CounterSample, CounterSeries};
use mpwatch_model::snapshot::{Report, Run, SCHEMA};
use mpwatch_model::unit::{Bytes, Microjoules, Micros};
use rusqlite::{CachedStatement, Connection};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::StoreError;
use super::names::all;
use super::open::{self, Stamp};
use super::read::{self, Dictionary, Netns, Stored, timestamp};
use super::row::{
    ConnectionRow, EndsRow, EventRow, PLACES, Row, RunRow, SampleRow, SubflowRow, VerdictRow, counter, select,
};
use super::verdicts;
use super::write::nanos;

/// From when to when. `None`: from the first, to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Connections that closed before are left out.
    pub since: Option<Timestamp>,
    /// Connections that were opened after are left out.
    pub until: Option<Timestamp>,
}

/// A store that is only read.
pub struct Archive {
    path: PathBuf,
    database: Connection,
    /// Set where it was taken for a file that nobody writes.
    stamp: Option<Stamp>,
}

impl Archive {
    /// Opens a file. A writer may go on writing it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (database, stamp) = open::for_reading(path)?;
        Ok(Self { path: path.to_owned(), database, stamp })
    }

    /// Every connection of a period, and the samples of its subflows. Energy and CPU time of the machine are totals of a whole run:
    /// they are in the report where the period is one run, and not known otherwise.
    pub fn report(&self, period: Period) -> Result<(Report, CounterSeries), StoreError> {
        let outcome = self.look(period);
        if self.stamp.is_none() || self.stamp == open::quiet(&self.path) {
            return outcome;
        }
        // A writer has come meanwhile: now its lock can be seen, and is heeded.
        Self::open(&self.path)?.look(period)
    }

    fn look(&self, period: Period) -> Result<(Report, CounterSeries), StoreError> {
        // One transaction, so that a writer that goes on meanwhile is not seen in part.
        let transaction =
            self.database.unchecked_transaction().map_err(|error| damaged(&self.path, &error))?;
        let outcome = self.read(period);
        drop(transaction);
        outcome.map_err(|error| StoreError::Read { path: self.path.clone(), why: error.to_string() })
    }

    fn read(&self, period: Period) -> Result<(Report, CounterSeries), Box<dyn std::error::Error>> {
        let since = period.since.map_or(i64::MIN, nanos);
        let until = period.until.map_or(i64::MAX, nanos);
        let runs: Vec<RunRow> = {
            let mut query =
                self.database.prepare(&select::<RunRow>("WHERE to_ns >= ? AND from_ns <= ? ORDER BY id"))?;
            query.query_map([since, until], RunRow::read)?.collect::<rusqlite::Result<_>>()?
        };
        let dictionary = dictionary(&self.database)?;
        let mut samples = CounterSeries::new();
        let mut connections = Vec::new();
        let mut parts = Parts::of(&self.database)?;
        let mut query = self.database.prepare(&select::<ConnectionRow>(
            "WHERE began_ns + age_ns >= ? AND began_ns <= ? ORDER BY id",
        ))?;
        let mut found = query.query([since, until])?;
        while let Some(row) = found.next()? {
            let stored = parts.read(ConnectionRow::read(row)?)?;
            let connection = read::connection(&stored, &dictionary)?;
            for (row_of_it, subflow) in stored.subflows.iter().zip(&connection.subflows) {
                let of_it = parts.samples(row_of_it.id, stored.row.began_ns)?;
                if !of_it.is_empty() {
                    samples.insert((connection.id, subflow.id), of_it);
                }
            }
            connections.push(connection);
        }
        connections.sort_by_key(|connection| (connection.opened_at, connection.id));
        let mut report = frame(&runs, since, until)?;
        report.connections = connections;
        Ok((report, samples))
    }
}

fn damaged(path: &Path, error: &rusqlite::Error) -> StoreError {
    StoreError::Read { path: path.to_owned(), why: error.to_string() }
}

pub(super) fn dictionary(database: &Connection) -> rusqlite::Result<Dictionary> {
    let mut words = database.prepare("SELECT id, text FROM name")?;
    let words = words.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut netns = database.prepare("SELECT id, cookie, inode, name FROM netns")?;
    let netns = netns.query_map([], |row| {
        Ok((row.get(0)?, Netns { cookie: row.get(1)?, inode: row.get(2)?, name: row.get(3)? }))
    })?;
    let mut ends = database.prepare(&select::<EndsRow>(""))?;
    let ends = ends.query_map([], |row| EndsRow::read(row).map(|ends| (ends.connection, ends)))?;
    Ok(Dictionary {
        words: words.collect::<rusqlite::Result<_>>()?,
        netns: netns.collect::<rusqlite::Result<_>>()?,
        connections: all(database)?.map(|(kind, number)| (number, kind)).collect(),
        subflows: all(database)?.map(|(kind, number)| (number, kind)).collect(),
        ends: ends.collect::<rusqlite::Result<_>>()?,
    })
}

/// The queries for what belongs to a connection.
pub(super) struct Parts<'a> {
    subflows: CachedStatement<'a>,
    verdicts: CachedStatement<'a>,
    events: CachedStatement<'a>,
    samples: CachedStatement<'a>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(database: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            subflows: database
                .prepare_cached(&select::<SubflowRow>("WHERE id >= ? AND id < ? ORDER BY id"))?,
            verdicts: database.prepare_cached(&select::<VerdictRow>("WHERE id >= ? AND id < ?"))?,
            events: database.prepare_cached(&select::<EventRow>("WHERE connection = ? ORDER BY seq"))?,
            samples: database.prepare_cached(&select::<SampleRow>("WHERE subflow = ? ORDER BY after_ns"))?,
        })
    }

    pub(super) fn read(&mut self, row: ConnectionRow) -> rusqlite::Result<Stored> {
        let id = row.id;
        let subflows = self.subflows.query_map([id * PLACES, (id + 1) * PLACES], SubflowRow::read)?;
        let subflows = subflows.collect::<rusqlite::Result<_>>()?;
        let verdicts = self.verdicts.query_map(verdicts::range(id), VerdictRow::read)?;
        let verdicts = verdicts.collect::<rusqlite::Result<_>>()?;
        let events = self.events.query_map([id], EventRow::read)?.collect::<rusqlite::Result<_>>()?;
        Ok(Stored { row, subflows, verdicts, events })
    }

    fn samples(&mut self, subflow: i64, began_ns: i64) -> rusqlite::Result<Vec<CounterSample>> {
        let rows = self.samples.query_map([subflow], SampleRow::read)?;
        rows.map(|row| row.map(|row| sample(&row, began_ns))).collect()
    }
}

fn sample(row: &SampleRow, began_ns: i64) -> CounterSample {
    CounterSample {
        at: timestamp(began_ns.saturating_add(row.after_ns)),
        bytes_sent: Bytes(counter(row.bytes_sent)),
        bytes_received: Bytes(counter(row.bytes_received)),
        bytes_retransmitted: Bytes(counter(row.bytes_retransmitted)),
        srtt: row.srtt_us.map(|time| Micros(counter(time))),
        cwnd_segments: u32::try_from(row.cwnd_segments).unwrap_or(u32::MAX),
        active: row.active_uj.map(|energy| Microjoules(counter(energy))),
    }
}

/// A report without its connections: the latest host, the losses of all runs.
fn frame(runs: &[RunRow], since: i64, until: i64) -> serde_json::Result<Report> {
    let latest = runs.last();
    let from = runs.iter().map(|run| run.from_ns).min().unwrap_or_default().max(since);
    let to = runs.iter().map(|run| run.to_ns).max().unwrap_or_default().min(until);
    let whole = match runs {
        [run] if since <= run.from_ns && until >= run.to_ns => Some(run),
        _ => None,
    };
    let mut losses: Losses = total(runs.iter().map(|run| run.losses.as_str()))?;
    losses.store_snapshots_dropped += runs.iter().map(|run| counter(run.snapshots_dropped)).sum::<u64>();
    losses.store_flows_lost += runs.iter().map(|run| counter(run.flows_lost)).sum::<u64>();
    losses.store_samples_lost += runs.iter().map(|run| counter(run.samples_lost)).sum::<u64>();
    let energy = whole.and_then(|run| run.energy.as_deref());
    Ok(Report {
        schema: SCHEMA,
        run: Run {
            host: latest.map(host).transpose()?.unwrap_or_default(),
            from: timestamp(from),
            to: timestamp(to.max(from)),
            cut_short: None,
        },
        connections: Vec::new(),
        counters: total(runs.iter().map(|run| run.counters.as_str()))?,
        cpus: whole.and_then(|run| run.cpus.as_deref()).map(serde_json::from_str).transpose()?,
        energy: energy.map(serde_json::from_str::<SnapshotEnergy>).transpose()?,
        losses,
    })
}

fn host(run: &RunRow) -> serde_json::Result<Host> {
    Ok(Host {
        name: run.host.clone(),
        kernel: run.kernel.clone(),
        boot_id: run.boot_id.clone(),
        mpwatch: run.mpwatch.clone(),
        missing: serde_json::from_str(&run.missing)?,
    })
}

/// The sum of counters that are kept as JSON, field by field.
fn total<'a, T: DeserializeOwned + Default>(all: impl Iterator<Item = &'a str>) -> serde_json::Result<T> {
    let mut sum = Value::Null;
    for text in all {
        sum = plus(sum, serde_json::from_str(text)?);
    }
    if sum.is_null() { Ok(T::default()) } else { serde_json::from_value(sum) }
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
