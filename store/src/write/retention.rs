// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the file within its limits of age and size. Connections that closed first are deleted first, open connections last. A connection that was
//! open at the end of an earlier run, and that the latest run did not observe, counts as closed.

use std::time::Duration;

use rusqlite::{Connection as Database, Params, params};

use super::limits::Limits;
use crate::schema::columns::Kind;
use crate::schema::names::KnownNames;
use crate::schema::tables::{TableInfo, tables};

/// Time between two checks of the age of all connections.
const AGE_CHECK_INTERVAL_NS: i64 = 60_000_000_000;
/// If the file is too large, at least a 20th of its connections is deleted at once, because choosing them reads all connections.
const MIN_PART: i64 = 20;
/// Maximum number of connections that are chosen for deletion at once; each takes 16 bytes of memory.
const MAX_CHOSEN: i64 = 500_000;
/// Maximum number of connections that one transaction deletes, which bounds the log.
const DELETED_AT_ONCE: usize = 2_000;
/// Maximum number of pages that are returned to the file system after one snapshot (8 MB), because SQLite may have to move each.
const VACUUMED_AT_ONCE: i64 = 2_000;
/// Unused names and namespaces are deleted after connections were deleted and more than this many names were added. Because such a sweep reads
/// the whole file, more names must have been added than the previous sweep kept.
const NEW_NAMES_BEFORE_SWEEP: usize = 10_000;
/// Assumed size of a name in bytes. In a small file, unused names may take up a tenth of the maximum size of the file.
const NAME_BYTES: u64 = 100;

/// Connections that ended before ?1 by the calendar, provided that the rest of their run and later runs lasted at least ?2 in total. If the
/// calendar was wrong when a run began, the dates of its rows may be too early, but the durations of runs are right (`clock.rs`).
const EXPIRED: &str = "SELECT c.id, c.changed FROM connection AS c JOIN (
    SELECT id, to_ns + ifnull(sum(to_ns - from_ns) OVER (ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS now_ns
    FROM run) AS r ON r.id = c.run
    WHERE c.began_ns + c.age_ns < ?1 AND c.began_ns + c.age_ns < r.now_ns - ?2";
const OLDEST: &str = "SELECT id, changed FROM connection
    ORDER BY closed OR run < (SELECT max(id) FROM run) DESC, began_ns + age_ns LIMIT ?1";

/// State of the checks.
#[derive(Default)]
pub(crate) struct Retention {
    /// Time and limit of the last check of ages.
    age_checked: Option<(i64, Duration)>,
    /// Connections deleted so far.
    pub(crate) retired: u64,
    /// Connections deleted since the last sweep of unused names.
    deleted: u64,
    /// Rows of `name` and `netns` that the last sweep kept.
    names_kept: usize,
    /// Rows of `name` and `netns` that this process had added before the last sweep.
    names_added: usize,
}

impl Retention {
    /// Deletes connections beyond the limits.
    pub(crate) fn enforce(
        &mut self,
        database: &Database,
        limits: &Limits,
        now_ns: i64,
        names: &mut KnownNames,
    ) -> rusqlite::Result<()> {
        let before = self.retired;
        if let Some(age) = limits.age.filter(|age| self.is_age_due(*age, now_ns)) {
            let age_ns = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
            self.delete(database, EXPIRED, params![now_ns.saturating_sub(age_ns), age_ns])?;
            self.age_checked = Some((now_ns, age));
        }
        if let Some(bytes) = limits.bytes {
            self.shrink(database, i64::try_from(bytes).unwrap_or(i64::MAX))?;
        }
        self.deleted += self.retired - before;
        if self.deleted > 0 && names.added - self.names_added > self.names_kept.max(new_names_before(limits))
        {
            names.forget();
            self.names_kept = delete_unused_names(database)?;
            (self.deleted, self.names_added) = (0, names.added);
        }
        Ok(())
    }

    fn is_age_due(&self, age: Duration, now_ns: i64) -> bool {
        let interval = AGE_CHECK_INTERVAL_NS.min(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
        let is_recent = |last_ns: i64| (0..interval).contains(&(now_ns - last_ns));
        !self.age_checked.is_some_and(|(last_ns, limit)| limit == age && is_recent(last_ns))
    }

    /// Deletes the oldest connections until the file is small enough, and returns free pages to the file system.
    fn shrink(&mut self, database: &Database, limit: i64) -> rusqlite::Result<()> {
        let pragma = |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let mut used = used_bytes(database)?;
        while used > limit {
            let count: i64 = database.query_row("SELECT count(*) FROM connection", [], |row| row.get(0))?;
            // Delete in proportion to the excess; the next round deletes the remaining excess.
            let part = (count * (used - limit) / used).max(count / MIN_PART);
            let before = self.retired;
            self.delete(database, OLDEST, [part.clamp(1, MAX_CHOSEN)])?;
            used = used_bytes(database)?;
            if self.retired == before {
                break;
            }
        }
        let excess = pragma("page_count")? - limit / pragma("page_size")?;
        if excess > 0 && pragma("freelist_count")? > 0 {
            let vacuum = format!("PRAGMA incremental_vacuum({})", excess.min(VACUUMED_AT_ONCE));
            // Each step frees a page.
            let mut vacuum = database.prepare(&vacuum)?;
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
        }
        Ok(())
    }

    /// Deletes the connections that a query selects, with all their rows.
    fn delete(&mut self, database: &Database, query: &str, values: impl Params) -> rusqlite::Result<()> {
        let mut old = database.prepare_cached(query)?;
        let old = old.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let old = old.collect::<rusqlite::Result<Vec<(i64, i64)>>>()?;
        for part in old.chunks(DELETED_AT_ONCE) {
            let transaction = database.unchecked_transaction()?;
            count_losses(&transaction, part)?;
            for TableInfo { name, of_connection, .. } in tables() {
                let Some(column) = of_connection else { continue };
                let mut deletion =
                    transaction.prepare_cached(&format!("DELETE FROM {name} WHERE {column} = ?"))?;
                for (id, _) in part {
                    deletion.execute([id])?;
                }
            }
            transaction.commit()?;
            self.retired += part.len() as u64;
        }
        if !old.is_empty() {
            let unused = "DELETE FROM run WHERE id < (SELECT max(id) FROM run) AND id NOT IN (SELECT run FROM connection)";
            database.execute(unused, [])?;
        }
        Ok(())
    }
}

/// Number of added names after which unused names are deleted.
fn new_names_before(limits: &Limits) -> usize {
    let in_file = limits.bytes.map_or(u64::MAX, |bytes| bytes / 10 / NAME_BYTES);
    usize::try_from(in_file).map_or(NEW_NAMES_BEFORE_SWEEP, |names| names.min(NEW_NAMES_BEFORE_SWEEP))
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

/// Deletes unused names and namespaces, which accumulate because control groups and peers change all the time. Returns the number of rows left.
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
