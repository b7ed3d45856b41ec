// SPDX-License-Identifier: MIT OR Apache-2.0
//! Corrects times in the file when the calendar is set during a run, or between two runs.

use mpwatch_model::kernel::clock;
use mpwatch_model::snapshot::Snapshot;
use rusqlite::{Connection as Database, params};

use crate::schema::tables::{TableInfo, tables};
use crate::schema::values::nanos;

/// Added to times first and subtracted afterwards, so that keys stay unique during the update. Larger than all stored times.
const DETOUR_NS: i64 = 1 << 62;

/// Runs of this boot that ended before now (`?2`) on the boot clock, and the step of the calendar since then.
const RUNS: &str = "SELECT id, boot_epoch_ns FROM run
    WHERE boot_id = ?1 AND boot_id <> '' AND to_ns - boot_epoch_ns <= ?2";

/// Moves all times of this boot to the calendar of a snapshot, in one transaction per run, so that the log stays small. After an error, the next call
/// continues. `changed`: number of the last change.
pub(crate) fn follow_clock(
    database: &Database,
    snapshot: &Snapshot,
    changed: &mut i64,
) -> rusqlite::Result<()> {
    let epoch_ns = snapshot.boot_epoch_ns;
    let mut runs = database.prepare(RUNS)?;
    let now_ns = nanos(snapshot.at).saturating_sub(epoch_ns);
    let runs =
        runs.query_map(params![snapshot.host.boot_id, now_ns], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (run, before_ns) in runs.collect::<rusqlite::Result<Vec<(i64, i64)>>>()? {
        if let Some(by_ns) = clock::step(before_ns, epoch_ns) {
            *changed += 1;
            let transaction = database.unchecked_transaction()?;
            shift_run(&transaction, run, by_ns, *changed)?;
            transaction.commit()?;
        }
    }
    Ok(())
}

/// Adds `by_ns` to all times of a run.
fn shift_run(database: &Database, run: i64, by_ns: i64, changed: i64) -> rusqlite::Result<()> {
    const CONNECTIONS: &str = "SELECT id FROM connection WHERE run = ?1";
    for step in [DETOUR_NS, by_ns - DETOUR_NS] {
        for TableInfo { name, columns, of_connection, .. } in tables() {
            let is_time =
                |name: &str| ["at_ns", "began_ns", "since_ns"].iter().any(|end| name.ends_with(end));
            let times = columns.iter().map(|column| column.name.as_str()).filter(|name| is_time(name));
            let moved: Vec<String> = times.map(|column| format!("{column} = {column} + ?2")).collect();
            if let Some(key) = of_connection.filter(|_| !moved.is_empty()) {
                let update = format!("UPDATE {name} SET {} WHERE {key} IN ({CONNECTIONS})", moved.join(", "));
                database.execute(&update, params![run, step])?;
            }
        }
    }
    database.execute("UPDATE connection SET changed = ?2 WHERE run = ?1", params![run, changed])?;
    let of_run = "UPDATE run SET from_ns = from_ns + ?2, to_ns = to_ns + ?2, boot_epoch_ns = boot_epoch_ns + ?2 WHERE id = ?1";
    database.execute(of_run, params![run, by_ns]).map(drop)
}
