// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the file within its limits of age and size. Connections that closed first are deleted first.

use std::time::Duration;

use rusqlite::{Connection as Database, Params, params};

use super::limits::Limits;
use crate::schema::columns::Kind;
use crate::schema::names::KnownNames;
use crate::schema::sql::OF_CONNECTION;
use crate::schema::tables::tables;

/// Time between two checks of the age of all connections.
const AGE_CHECK_INTERVAL_NS: i64 = 60_000_000_000;
/// If the file is too large, the first of this many parts of its connections is deleted, then of the rest, until it fits.
const SIZE_PARTS: i64 = 20;
/// Unused names and namespaces are deleted after connections were deleted and more than this many names were added. Because that reads the
/// whole file, more names must have been added than were kept by the previous sweep.
const NEW_NAMES_BEFORE_SWEEP: usize = 10_000;
/// Assumed size of a name. In a small file, unused names may take up a tenth of its maximum size.
const NAME_BYTES: u64 = 100;

/// Connections that ended before ?1 by the calendar, if later runs also have a total duration of at least ?2. If the calendar was wrong when
/// a run began, its rows may have too early dates, but durations of runs are right (`clock.rs`).
const EXPIRED: &str = "SELECT c.id, c.changed FROM connection AS c JOIN (
    SELECT id, to_ns + ifnull(sum(to_ns - from_ns) OVER (ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS now_ns
    FROM run) AS r ON r.id = c.run
    WHERE c.began_ns + c.age_ns < ?1 AND c.began_ns + c.age_ns < r.now_ns - ?2";
const FIRST: &str = "SELECT id, changed FROM connection WHERE id <= ?1";

/// State of the checks.
#[derive(Default)]
pub(crate) struct Retention {
    age_checked_ns: Option<i64>,
    age: Option<Duration>,
    /// Connections deleted since the last sweep of unused names.
    deleted: u64,
    /// Rows of `name` and `netns` that the last sweep kept.
    names_kept: usize,
    /// Rows that this process had added before it.
    names_added: usize,
}

impl Retention {
    /// Deletes connections beyond the limits. Returns their number.
    pub(crate) fn enforce(
        &mut self,
        database: &Database,
        limits: &Limits,
        now_ns: i64,
        names: &mut KnownNames,
    ) -> rusqlite::Result<u64> {
        let mut retired = 0;
        if let Some(age_ns) = self.due_age_ns(limits, now_ns) {
            retired += delete(database, EXPIRED, params![now_ns.saturating_sub(age_ns), age_ns])?;
        }
        if let Some(bytes) = limits.bytes {
            retired += shrink(database, i64::try_from(bytes).unwrap_or(i64::MAX))?;
        }
        self.deleted += retired;
        if self.deleted > 0 && names.added - self.names_added > self.names_kept.max(new_names_before(limits))
        {
            names.forget();
            self.names_kept = delete_unused_names(database)?;
            (self.deleted, self.names_added) = (0, names.added);
        }
        Ok(retired)
    }

    /// The maximum age, if a check of it is due.
    fn due_age_ns(&mut self, limits: &Limits, now_ns: i64) -> Option<i64> {
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

/// Number of added names after which unused names are deleted.
fn new_names_before(limits: &Limits) -> usize {
    let in_file = limits.bytes.map_or(u64::MAX, |bytes| bytes / 10 / NAME_BYTES);
    usize::try_from(in_file).map_or(NEW_NAMES_BEFORE_SWEEP, |names| names.min(NEW_NAMES_BEFORE_SWEEP))
}

/// Deletes the connections that a query selects, with all their rows.
fn delete(database: &Database, query: &str, values: impl Params) -> rusqlite::Result<u64> {
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

/// Counts deleted connections, given by their numbers and the numbers of their last changes, as lost for the export targets that have not
/// confirmed them. `feed/outbox.rs` owns the table.
fn count_losses(database: &Database, deleted: &[(i64, i64)]) -> rusqlite::Result<()> {
    let exists = "SELECT count(*) FROM sqlite_schema WHERE name = 'export_cursor'";
    if deleted.is_empty() || !database.query_one(exists, [], |row| row.get::<_, bool>(0))? {
        return Ok(());
    }
    let mut cursors = database.prepare_cached("SELECT target, changed, connection FROM export_cursor")?;
    let cursors = cursors.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    for (target, confirmed) in cursors.collect::<rusqlite::Result<Vec<(String, (i64, i64))>>>()? {
        let lost = deleted.iter().filter(|(id, changed)| (*changed, *id) > confirmed).count();
        let sql = "UPDATE export_cursor SET lost = lost + ? WHERE target = ?";
        database.prepare_cached(sql)?.execute(params![i64::try_from(lost).unwrap_or(i64::MAX), target])?;
    }
    Ok(())
}

/// Bytes of the file in use.
pub(crate) fn used_bytes(database: &Database) -> rusqlite::Result<i64> {
    let pragma = |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Deletes the first connections until the file is small enough.
fn shrink(database: &Database, limit: i64) -> rusqlite::Result<u64> {
    let mut retired = 0;
    let mut rounds = 0;
    while used_bytes(database)? > limit && rounds < SIZE_PARTS {
        rounds += 1;
        let range = "SELECT min(id), max(id) FROM connection";
        let (first, last): (Option<i64>, Option<i64>) =
            database.query_row(range, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(first), Some(last)) = (first, last) else { break };
        retired += delete(database, FIRST, [first + (last - first) / SIZE_PARTS])?;
    }
    if retired > 0 {
        database.execute_batch("PRAGMA incremental_vacuum")?;
    }
    Ok(retired)
}

/// Deletes unused names and namespaces. Control groups, namespaces and addresses of peers change all the time. Returns the number of the
/// rest.
fn delete_unused_names(database: &Database) -> rusqlite::Result<usize> {
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
