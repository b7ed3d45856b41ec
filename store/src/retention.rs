// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the file within its limits: what closed longest ago goes first.

use rusqlite::{Connection, params};

use super::Limits;
use super::names::Known;
use super::row::{PLACES, number};
use super::verdicts;

/// How often the age of all connections is looked at.
const AGE_EVERY_NS: i64 = 60_000_000_000;
/// A round of making room deletes this part of all connections.
const PART: i64 = 20;
/// After this many new words those that no row uses any more are looked for.
const SWEEP_AFTER: usize = 10_000;

/// When the limits were last looked at.
#[derive(Default)]
pub(super) struct Retention {
    aged_ns: Option<i64>,
    age: Option<std::time::Duration>,
    words_kept: usize,
}

impl Retention {
    /// Deletes what is beyond the limits; how many connections.
    pub(super) fn enforce(
        &mut self,
        database: &Connection,
        limits: &Limits,
        now_ns: i64,
        names: &mut Known,
    ) -> rusqlite::Result<u64> {
        let mut retired = 0;
        let is_new = self.age != limits.age;
        self.age = limits.age;
        let age_ns = limits.age.map_or(i64::MAX, |age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
        let due = is_new || self.aged_ns.is_none_or(|last| now_ns - last >= AGE_EVERY_NS.min(age_ns));
        if limits.age.is_some() && due {
            self.aged_ns = Some(now_ns);
            let oldest = now_ns.saturating_sub(age_ns);
            retired += delete(database, "began_ns + age_ns < ?", oldest)?;
        }
        if let Some(bytes) = limits.bytes {
            retired += shrink(database, number(bytes))?;
        }
        if names.len() > self.words_kept + SWEEP_AFTER {
            sweep(database)?;
            *names = Known::default();
            let kept = "SELECT (SELECT count(*) FROM name) + (SELECT count(*) FROM connection_kind) + (SELECT count(*) FROM subflow_kind)";
            let kept: i64 = database.query_row(kept, [], |row| row.get(0))?;
            self.words_kept = usize::try_from(kept).unwrap_or_default();
        }
        Ok(retired)
    }
}

/// Deletes connections with all that belongs to them.
fn delete(database: &Connection, condition: &str, value: i64) -> rusqlite::Result<u64> {
    let transaction = database.unchecked_transaction()?;
    let mut old = transaction.prepare_cached(&format!("SELECT id FROM connection WHERE {condition}"))?;
    let ids = old.query_map([value], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    for &id in &ids {
        transaction.prepare_cached("DELETE FROM connection WHERE id = ?")?.execute([id])?;
        transaction.prepare_cached("DELETE FROM event WHERE connection = ?")?.execute([id])?;
        transaction.prepare_cached("DELETE FROM ends WHERE connection = ?")?.execute([id])?;
        transaction
            .prepare_cached("DELETE FROM verdict WHERE id >= ? AND id < ?")?
            .execute(verdicts::range(id))?;
        let places = params![id * PLACES, (id + 1) * PLACES];
        transaction.prepare_cached("DELETE FROM subflow WHERE id >= ? AND id < ?")?.execute(places)?;
        transaction
            .prepare_cached("DELETE FROM sample WHERE subflow >= ? AND subflow < ?")?
            .execute(places)?;
    }
    drop(old);
    if !ids.is_empty() {
        transaction.execute(
            "DELETE FROM run WHERE id < (SELECT max(id) FROM run) AND id NOT IN (SELECT run FROM connection)",
            [],
        )?;
    }
    transaction.commit()?;
    Ok(ids.len() as u64)
}

/// Bytes of the file that hold something.
pub(super) fn used(database: &Connection) -> rusqlite::Result<i64> {
    let pragma = |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Deletes the first connections until the rest fits.
fn shrink(database: &Connection, limit: i64) -> rusqlite::Result<u64> {
    let mut retired = 0;
    let mut rounds = 0;
    while used(database)? > limit && rounds < PART {
        rounds += 1;
        let (first, last): (Option<i64>, Option<i64>) =
            database.query_row("SELECT min(id), max(id) FROM connection", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let (Some(first), Some(last)) = (first, last) else { break };
        retired += delete(database, "id <= ?", first + (last - first) / PART)?;
    }
    if retired > 0 {
        database.execute_batch("PRAGMA incremental_vacuum")?;
    }
    Ok(retired)
}

/// Deletes kinds and words that no row uses: control groups and addresses of peers come and go for ever.
fn sweep(database: &Connection) -> rusqlite::Result<()> {
    const USERS: [(&str, &[&str]); 5] = [
        (
            "connection_kind",
            &["role", "protocol", "state", "fallback", "flow_class", "comm", "cgroup", "grouped"],
        ),
        (
            "subflow_kind",
            &[
                "local_ip",
                "interface",
                "state",
                "close_reason",
                "energy_source",
                "energy_convention",
                "energy_idle",
            ],
        ),
        ("subflow", &["remote_ip"]),
        ("ends", &["local_ip", "remote_ip"]),
        ("event", &["source", "kind", "word"]),
    ];
    database.execute_batch(
        "DELETE FROM connection_kind WHERE id NOT IN (SELECT kind FROM connection);
         DELETE FROM subflow_kind WHERE id NOT IN (SELECT kind FROM subflow);",
    )?;
    let columns = USERS.iter().flat_map(|(table, columns)| {
        columns.iter().map(move |column| format!("SELECT {column} FROM {table} WHERE {column} IS NOT NULL"))
    });
    let used = columns.collect::<Vec<_>>().join(" UNION ");
    database.execute(&format!("DELETE FROM name WHERE id NOT IN ({used})"), [])?;
    Ok(())
}
