// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the file within its limits: connections that closed longest ago are deleted first.

use std::time::Duration;

use rusqlite::{Connection, Params, params};

use crate::schema::columns::Kind;
use crate::write::limits::Limits;
use crate::schema::names::KnownNames;
use crate::feed::outbox::count_losses;
use crate::schema::sql::OF_CONNECTION;
use crate::schema::tables::tables;

/// How often the age of all connections is checked.
const AGE_CHECK_INTERVAL_NS: i64 = 60_000_000_000;
/// Each step of making room deletes one in this many connections.
const PART: i64 = 20;
/// After connections were deleted and at least this many names and namespaces were added, those that no row uses are deleted. That reads the
/// whole file, so the number added must also exceed the number that the last time kept.
const NEW_NAMES_BEFORE_SWEEP: usize = 10_000;
/// In a small file fewer: unused names take up at most a tenth of it, if a name takes up this many bytes.
const NAME_BYTES: u64 = 100;

/// Connections that ended before ?1 by the calendar and since whose end runs have lasted for ?2. A calendar that is set later makes rows
/// look older than they are, but it makes no run longer: the rows of each run follow it (`clock.rs`).
const EXPIRED: &str = "SELECT c.id, c.changed FROM connection AS c JOIN (
    SELECT id, to_ns + ifnull(sum(to_ns - from_ns) OVER (ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS now_ns
    FROM run) AS r ON r.id = c.run
    WHERE c.began_ns + c.age_ns < ?1 AND c.began_ns + c.age_ns < r.now_ns - ?2";
/// The first connections.
const FIRST: &str = "SELECT id, changed FROM connection WHERE id <= ?1";

/// When the limits were last checked.
#[derive(Default)]
pub(crate) struct Retention {
    age_checked_ns: Option<i64>,
    age: Option<Duration>,
    /// Connections deleted since unused names were.
    deleted: u64,
    /// Rows of `name` and `netns` that were kept then, and those that this process had added.
    names_kept: usize,
    names_added: usize,
}

impl Retention {
    /// Deletes what is beyond the limits; returns how many connections.
    pub(crate) fn enforce(
        &mut self,
        database: &Connection,
        limits: &Limits,
        now_ns: i64,
        names: &mut KnownNames,
    ) -> rusqlite::Result<u64> {
        let mut retired = 0;
        if let Some(age_ns) = self.due(limits, now_ns) {
            retired += delete(database, EXPIRED, params![now_ns.saturating_sub(age_ns), age_ns])?;
        }
        if let Some(bytes) = limits.bytes {
            retired += shrink(database, i64::try_from(bytes).unwrap_or(i64::MAX))?;
        }
        self.deleted += retired;
        if self.deleted > 0
            && names.added() - self.names_added > self.names_kept.max(new_names_before(limits))
        {
            names.forget();
            self.names_kept = delete_unused_names(database)?;
            (self.deleted, self.names_added) = (0, names.added());
        }
        Ok(retired)
    }

    /// The age of connections that are too old. `None`: no check is due.
    fn due(&mut self, limits: &Limits, now_ns: i64) -> Option<i64> {
        let is_new = std::mem::replace(&mut self.age, limits.age) != limits.age;
        let age_ns = i64::try_from(limits.age?.as_nanos()).unwrap_or(i64::MAX);
        let interval = AGE_CHECK_INTERVAL_NS.min(age_ns);
        if !is_new && self.age_checked_ns.is_some_and(|last| (0..interval).contains(&(now_ns - last))) {
            return None;
        }
        self.age_checked_ns = Some(now_ns);
        Some(age_ns)
    }
}

/// How many names are added before unused ones are deleted.
fn new_names_before(limits: &Limits) -> usize {
    let in_file = limits.bytes.map_or(u64::MAX, |bytes| bytes / 10 / NAME_BYTES);
    usize::try_from(in_file).map_or(NEW_NAMES_BEFORE_SWEEP, |names| names.min(NEW_NAMES_BEFORE_SWEEP))
}

/// Deletes the connections that a query finds, with all their rows.
fn delete(database: &Connection, query: &str, values: impl Params) -> rusqlite::Result<u64> {
    let transaction = database.unchecked_transaction()?;
    let mut old = transaction.prepare_cached(query)?;
    let ids = old.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let ids = ids.collect::<rusqlite::Result<Vec<(i64, i64)>>>()?;
    drop(old);
    count_losses(&transaction, &ids)?;
    for (table, column) in OF_CONNECTION {
        let mut deletion = transaction.prepare_cached(&format!("DELETE FROM {table} WHERE {column} = ?"))?;
        for (id, _) in &ids {
            deletion.execute([id])?;
        }
    }
    if !ids.is_empty() {
        let unused =
            "DELETE FROM run WHERE id < (SELECT max(id) FROM run) AND id NOT IN (SELECT run FROM connection)";
        transaction.execute(unused, [])?;
    }
    transaction.commit()?;
    Ok(ids.len() as u64)
}

/// Bytes of the file in use.
pub(crate) fn used_bytes(database: &Connection) -> rusqlite::Result<i64> {
    let pragma = |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Deletes the first connections until the rest fits.
fn shrink(database: &Connection, limit: i64) -> rusqlite::Result<u64> {
    let mut retired = 0;
    let mut rounds = 0;
    while used_bytes(database)? > limit && rounds < PART {
        rounds += 1;
        let range = "SELECT min(id), max(id) FROM connection";
        let (first, last): (Option<i64>, Option<i64>) =
            database.query_row(range, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(first), Some(last)) = (first, last) else { break };
        retired += delete(database, FIRST, [first + (last - first) / PART])?;
    }
    if retired > 0 {
        database.execute_batch("PRAGMA incremental_vacuum")?;
    }
    Ok(retired)
}

/// Deletes unused names and namespaces, because control groups, namespaces and addresses of peers change all the time. Returns how many are
/// left.
fn delete_unused_names(database: &Connection) -> rusqlite::Result<usize> {
    let mut used = Vec::new();
    for table in tables() {
        for column in table.columns.iter().filter(|column| column.kind == Kind::Name) {
            used.push(format!("SELECT {0} FROM {1} WHERE {0} IS NOT NULL", column.name, table.name));
        }
    }
    let transaction = database.unchecked_transaction()?;
    transaction.execute(&format!("DELETE FROM name WHERE id NOT IN ({})", used.join(" UNION ")), [])?;
    transaction.execute("DELETE FROM netns WHERE id NOT IN (SELECT netns FROM connection)", [])?;
    transaction.commit()?;
    let left = "SELECT (SELECT count(*) FROM name) + (SELECT count(*) FROM netns)";
    let left: i64 = database.query_row(left, [], |row| row.get(0))?;
    Ok(usize::try_from(left).unwrap_or_default())
}
