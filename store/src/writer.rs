// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer: decides what of a snapshot is worth a row, writes it in one transaction, and where that fails keeps it and tries
//! again with the next snapshot. Never ends the process.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mpwatch_model::connection::Connection as Flow;
use mpwatch_model::host::Losses;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;
use rusqlite::{Connection, ErrorCode, params};

use super::continued::Continued;
use super::merge::Earlier;
use super::names::{Known, Names};
use super::open::{identity, is_still};
use super::queue::{Last, Load};
use super::retention::{Retention, used};
use super::row::{RunRow, insert, insertion, number};
use super::tables::{Item, Tables};
use super::write::nanos;
use super::{Limits, Shared};

/// From this age on a flow is long, and sampled; so is one that has carried [`LONG_BYTES`].
const LONG_SECONDS: f64 = 60.0;
const LONG_BYTES: Bytes = Bytes(1_000_000);
/// From this age on a flow that is open has a row, so that a writer that is killed has told of it.
const SETTLED_SECONDS: f64 = 10.0;
/// A flow that carries nothing is sampled so much less often.
const IDLE_FACTOR: f64 = 30.0;
/// How often what is known of the run itself is written.
const RUN_EVERY_NS: i64 = 10_000_000_000;
/// Pause between two attempts to write at the end.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection that is in snapshots now.
struct Followed {
    row: i64,
    /// Its place in the snapshot before.
    place: usize,
    /// The last snapshot that had it.
    turn: u64,
    /// It has a row of this run.
    is_written: bool,
    /// When it was sampled, and what it had carried then.
    sampled: Option<(i64, Bytes)>,
    /// What earlier runs knew of it.
    earlier: Option<Box<Earlier>>,
}

impl Followed {
    fn item<'a>(&self, flow: &'a Flow, seen_at: Timestamp, sampled: bool) -> Item<'a> {
        let is_new = !self.is_written && self.earlier.is_none();
        let item = Item { row: self.row, is_new, flow: Cow::Borrowed(flow), seen_at, sampled, runs: 1 };
        let Some(earlier) = &self.earlier else { return item };
        let (flow, seen_at) = earlier.with(flow, seen_at);
        Item { flow: Cow::Owned(flow), seen_at, runs: earlier.runs + 1, ..item }
    }
}

/// A connection that waits to be written.
struct Waiting {
    flow: Flow,
    seen_at: Timestamp,
    runs: i64,
}

/// Owns the file.
pub(super) struct Writer {
    pub(super) database: Connection,
    path: PathBuf,
    file: Option<(u64, u64)>,
    shared: Arc<Shared>,
    names: Known,
    retention: Retention,
    run: i64,
    began: Option<Timestamp>,
    run_written_ns: Option<i64>,
    next: i64,
    turn: u64,
    followed: HashMap<ConnectionId, Followed>,
    continued: Option<Continued>,
    previous: Option<Arc<Snapshot>>,
    /// A snapshot that came before the file could be read.
    unread: Option<Load>,
    /// What could not be written, by its number.
    backlog: BTreeMap<i64, Waiting>,
}

impl Writer {
    pub(super) fn new(database: Connection, shared: Arc<Shared>) -> rusqlite::Result<Self> {
        let following = |table: &str| -> rusqlite::Result<i64> {
            database.query_row(&format!("SELECT ifnull(max(id), 0) + 1 FROM {table}"), [], |row| row.get(0))
        };
        let (run, next) = (following("run")?, following("connection")?);
        let path = PathBuf::from(database.path().unwrap_or_default());
        let file = std::fs::metadata(&path).ok().map(|metadata| identity(&metadata));
        Ok(Self {
            database,
            path,
            file,
            shared,
            names: Known::default(),
            retention: Retention::default(),
            run,
            began: None,
            run_written_ns: None,
            next,
            turn: 0,
            followed: HashMap::new(),
            continued: None,
            previous: None,
            unread: None,
            backlog: BTreeMap::new(),
        })
    }

    /// Takes in a snapshot, and the last of what was in those whose place it took.
    pub(super) fn take(&mut self, load: Load) {
        let limits = self.shared.with(|status| status.limits);
        let load = self.with_unread(load, &limits);
        if let Err(error) = self.look_for_earlier(&load.snapshot) {
            // Without it a connection could get a second row.
            self.shared.with(|status| status.losses.paused = Some(reason(&error)));
            self.unread = Some(load);
            return;
        }
        let Load { snapshot, lasts } = &load;
        self.turn += 1;
        let previous = self.previous.replace(Arc::clone(snapshot));
        let mut items = self.ended(lasts, previous.as_deref());
        items.extend(self.changes(snapshot, previous.as_deref(), &limits));
        if let Some(previous) = &previous {
            items.extend(self.gone(previous));
        }
        let due = self.run_written_ns.is_none_or(|last| nanos(snapshot.at) - last >= RUN_EVERY_NS);
        self.save(&items, snapshot, due);
        if self.backlog.is_empty() {
            self.retire(nanos(snapshot.at), &limits);
        }
    }

    /// With what the one before had, where that could not even be looked at.
    fn with_unread(&mut self, load: Load, limits: &Limits) -> Load {
        let Some(earlier) = self.unread.take() else { return load };
        let (load, lost) = load.after(earlier, limits.backlog);
        self.shared.with(|status| {
            status.losses.snapshots_dropped += 1;
            status.losses.flows_lost += lost;
        });
        load
    }

    /// Once, before the first row: what earlier runs have left open.
    fn look_for_earlier(&mut self, snapshot: &Snapshot) -> rusqlite::Result<()> {
        let told = self.shared.with(|status| status.began);
        let began = nanos(*self.began.get_or_insert(told.unwrap_or(snapshot.at)));
        if self.continued.is_none() {
            self.continued = Some(Continued::of(&self.database, &snapshot.host.boot_id, began)?);
        }
        Ok(())
    }

    /// What is still open stays as it was last seen; the file is closed in order. Where it cannot be written that is tried again, for
    /// so long.
    pub(super) fn finish(mut self, patience: Duration) {
        let end = Instant::now() + patience;
        while let Some(unread) = self.unread.take_if(|_| Instant::now() < end) {
            self.take(unread);
            if self.unread.is_some() {
                std::thread::sleep(PAUSE);
            }
        }
        if let Some(last) = self.previous.take() {
            let open = last
                .connections
                .iter()
                .filter(|flow| flow.is_open())
                .filter_map(|flow| Some(self.followed.get(&flow.id)?.item(flow, last.at, false)));
            let open: Vec<Item<'_>> = open.collect();
            self.save(&open, &last, true);
            while !self.backlog.is_empty() && Instant::now() < end {
                std::thread::sleep(PAUSE);
                self.save(&[], &last, true);
            }
        }
        let unread =
            self.unread.as_ref().map_or(0, |load| load.lasts.len() + load.snapshot.connections.len());
        let lost = (self.backlog.len() + unread) as u64;
        self.shared.with(|status| status.losses.flows_lost += lost);
        // Nothing of this is needed for what was committed to be safe.
        let _ = self.database.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);");
    }

    /// Connections that are in no snapshot any more, and were last seen in one that the writer has not.
    fn ended<'a>(&mut self, lasts: &'a VecDeque<Last>, previous: Option<&Snapshot>) -> Vec<Item<'a>> {
        let mut items = Vec::new();
        for Last { flow, seen_at } in lasts {
            let known = self.followed.remove(&flow.id);
            let before = known.as_ref().and_then(|known| previous?.connections.get(known.place));
            if before != Some(flow) || flow.is_open() {
                let followed = known.unwrap_or_else(|| self.follow(flow.id, 0));
                items.push(followed.item(flow, *seen_at, false));
            }
        }
        items
    }

    /// Closed connections as soon as they are seen and whenever more is known of them; open ones when they have been for a while, long
    /// ones from time to time.
    fn changes<'a>(
        &mut self,
        snapshot: &'a Snapshot,
        previous: Option<&Snapshot>,
        limits: &Limits,
    ) -> Vec<Item<'a>> {
        let mut items = Vec::new();
        let now_ns = nanos(snapshot.at);
        for (place, flow) in snapshot.connections.iter().enumerate() {
            let is_new = !self.followed.contains_key(&flow.id);
            if is_new {
                let followed = self.follow(flow.id, place);
                self.followed.insert(flow.id, followed);
            }
            let Some(followed) = self.followed.get_mut(&flow.id) else { continue };
            let before =
                previous.and_then(|previous| previous.connections.get(followed.place)).filter(|_| !is_new);
            let sampled = flow.is_open() && is_long(flow) && is_due(flow, now_ns, followed.sampled, limits);
            if sampled {
                followed.sampled = Some((now_ns, carried(flow)));
            }
            let settled = !followed.is_written && flow.age_s >= SETTLED_SECONDS;
            if sampled || settled || (!flow.is_open() && before != Some(flow)) {
                items.push(followed.item(flow, snapshot.at, sampled));
                followed.is_written = true;
            }
            (followed.place, followed.turn) = (place, self.turn);
        }
        items
    }

    /// A connection that this run has not seen before: the row that another run has begun, or a new one.
    fn follow(&mut self, id: ConnectionId, place: usize) -> Followed {
        let known = self.continued.as_mut().and_then(|continued| continued.find(&self.database, id));
        let (row, earlier) = if let Some((row, earlier)) = known {
            (row, Some(Box::new(earlier)))
        } else {
            self.next += 1;
            (self.next - 1, None)
        };
        Followed { row, place, turn: 0, is_written: false, sampled: None, earlier }
    }

    /// Connections that are in no snapshot any more. Their last picture has been written, unless the one in which they were closed
    /// was dropped.
    fn gone<'a>(&mut self, previous: &'a Snapshot) -> Vec<Item<'a>> {
        let turn = self.turn;
        let mut items = Vec::new();
        self.followed.retain(|_, followed| {
            let is_here = followed.turn == turn;
            if let Some(flow) = previous.connections.get(followed.place).filter(|f| !is_here && f.is_open()) {
                items.push(followed.item(flow, previous.at, false));
            }
            is_here
        });
        items
    }

    /// Writes these, and what waits; or lets all of it wait.
    fn save(&mut self, items: &[Item<'_>], snapshot: &Snapshot, with_run: bool) {
        for item in items {
            self.backlog.remove(&item.row);
        }
        let written = (items.len() + self.backlog.len()) as u64;
        match self.commit(items, snapshot, with_run) {
            Ok(()) => {
                self.backlog.clear();
                let size = if with_run { used(&self.database).ok() } else { None };
                if with_run {
                    self.run_written_ns = Some(nanos(snapshot.at));
                }
                self.shared.with(|status| {
                    status.written += written;
                    status.waiting = 0;
                    status.bytes = size.map_or(status.bytes, i64::unsigned_abs);
                    status.losses.paused = None;
                });
            }
            Err(error) => self.postpone(items, &error),
        }
    }

    fn postpone(&mut self, items: &[Item<'_>], error: &rusqlite::Error) {
        // Numbers that were given in what was rolled back mean nothing.
        self.names = Known::default();
        for Item { row, flow, seen_at, runs, .. } in items {
            let waiting = Waiting { flow: flow.as_ref().clone(), seen_at: *seen_at, runs: *runs };
            self.backlog.insert(*row, waiting);
        }
        let most = self.shared.with(|status| status.limits.backlog);
        let mut lost = 0;
        while self.backlog.len() > most {
            self.backlog.pop_first();
            lost += 1;
        }
        let samples = items.iter().filter(|item| item.sampled).count() as u64;
        let waiting = self.backlog.len();
        self.shared.with(|status| {
            status.waiting = waiting as u64;
            status.losses.flows_lost += lost;
            status.losses.samples_lost += samples;
            status.losses.paused = Some(format!("{}; {waiting} connections wait for it", reason(error)));
        });
    }

    fn commit(&mut self, items: &[Item<'_>], snapshot: &Snapshot, with_run: bool) -> rusqlite::Result<()> {
        if with_run && !self.file.is_some_and(|file| is_still(&self.path, file)) {
            // SQLite would go on writing what nobody can open any more.
            return Err(rusqlite::Error::InvalidPath(self.path.clone()));
        }
        let transaction = self.database.unchecked_transaction()?;
        if with_run {
            let run = self.run_row(snapshot)?;
            insert(&mut *insertion::<RunRow>(&transaction)?, &run)?;
        } else {
            transaction
                .prepare_cached("UPDATE run SET to_ns = ? WHERE id = ?")?
                .execute(params![nanos(snapshot.at), self.run])?;
        }
        let waiting = self.backlog.iter().map(|(&row, waiting)| Item {
            row,
            is_new: false,
            flow: Cow::Borrowed(&waiting.flow),
            seen_at: waiting.seen_at,
            sampled: false,
            runs: waiting.runs,
        });
        let mut tables = Tables::of(&transaction)?;
        let mut names = Names { database: &transaction, known: &mut self.names };
        for item in waiting {
            tables.write(&item, self.run, &mut names)?;
        }
        for item in items {
            tables.write(item, self.run, &mut names)?;
        }
        drop(tables);
        transaction.commit()
    }

    fn run_row(&self, snapshot: &Snapshot) -> rusqlite::Result<RunRow> {
        let host = &snapshot.host;
        let losses = self.shared.with(|status| status.losses.clone());
        Ok(RunRow {
            id: self.run,
            host: host.name.clone(),
            boot_id: host.boot_id.clone(),
            kernel: host.kernel.clone(),
            mpwatch: host.mpwatch.clone(),
            from_ns: nanos(self.began.unwrap_or(snapshot.at)),
            to_ns: nanos(snapshot.at),
            missing: json(&host.missing)?,
            // Its own losses have columns of their own.
            losses: json(&Losses {
                store_snapshots_dropped: 0,
                store_flows_lost: 0,
                store_samples_lost: 0,
                ..snapshot.losses
            })?,
            counters: json(&snapshot.counters)?,
            cpus: snapshot.cpus.as_ref().map(json).transpose()?,
            energy: snapshot.energy.as_ref().map(json).transpose()?,
            snapshots_dropped: number(losses.snapshots_dropped),
            flows_lost: number(losses.flows_lost),
            samples_lost: number(losses.samples_lost),
        })
    }

    fn retire(&mut self, now_ns: i64, limits: &Limits) {
        match self.retention.enforce(&self.database, limits, now_ns, &mut self.names) {
            Ok(0) => {}
            Ok(retired) => self.shared.with(|status| status.retired += retired),
            // Nothing is lost by it; the next time may be better.
            Err(error) => self.shared.with(|status| {
                status.losses.paused =
                    Some(format!("old connections could not be deleted: {}", reason(&error)));
            }),
        }
    }
}

pub(super) fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Words for what keeps the store from writing.
fn reason(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(ErrorCode::ReadOnly) => "the file may not be written any more".to_owned(),
        Some(ErrorCode::DatabaseBusy) => "another program holds the file".to_owned(),
        _ if matches!(error, rusqlite::Error::InvalidPath(_)) => {
            "the file was removed, or another took its name; start mpwatch again".to_owned()
        }
        _ => error.to_string(),
    }
}

fn carried(flow: &Flow) -> Bytes {
    flow.bytes_sent.unwrap_or_default() + flow.bytes_received.unwrap_or_default()
}

fn is_long(flow: &Flow) -> bool {
    flow.age_s >= LONG_SECONDS || carried(flow) >= LONG_BYTES
}

/// The younger a flow, the sooner its next sample: an eighth of its age, up to the limit; much later where nothing has moved.
fn is_due(flow: &Flow, now_ns: i64, sampled: Option<(i64, Bytes)>, limits: &Limits) -> bool {
    let gap = (flow.age_s / 8.0).clamp(0.0, limits.sample_every.as_secs_f64());
    sampled.is_none_or(|(last_ns, then)| {
        let gap = if carried(flow) == then { gap * IDLE_FACTOR } else { gap };
        (now_ns - last_ns) as f64 / 1e9 >= gap
    })
}
