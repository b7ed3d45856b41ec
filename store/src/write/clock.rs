// SPDX-License-Identifier: MIT OR Apache-2.0
//! Corrects times in the file when the calendar is set during a run.

use rusqlite::{Connection as Database, params};

use crate::schema::tables::{TableInfo, tables};

/// Added to times first and subtracted afterwards, so that keys stay unique during the update. Larger than all stored times.
const DETOUR_NS: i64 = 1 << 62;

/// Connections of the run, and connections that earlier runs of this boot left open: their times are from the same calendar, and this run may
/// continue them.
const OF_RUN: &str = "SELECT id FROM connection WHERE run = ?1
    OR closed = 0 AND run IN (SELECT id FROM run WHERE boot_id = (SELECT boot_id FROM run WHERE id = ?1))";

/// Adds `by_ns` to all times of a run, in one transaction. `changed`: number of this change.
pub(crate) fn shift_run(database: &Database, run: i64, by_ns: i64, changed: i64) -> rusqlite::Result<()> {
    let transaction = database.unchecked_transaction()?;
    for step in [DETOUR_NS, by_ns - DETOUR_NS] {
        for TableInfo { name, columns, of_connection, .. } in tables() {
            let is_time =
                |name: &str| ["at_ns", "began_ns", "since_ns"].iter().any(|end| name.ends_with(end));
            let times = columns.iter().map(|column| column.name.as_str()).filter(|name| is_time(name));
            let moved: Vec<String> = times.map(|column| format!("{column} = {column} + ?2")).collect();
            if let Some(key) = of_connection.filter(|_| !moved.is_empty()) {
                let update = format!("UPDATE {name} SET {} WHERE {key} IN ({OF_RUN})", moved.join(", "));
                transaction.execute(&update, params![run, step])?;
            }
        }
    }
    let numbered = format!("UPDATE connection SET changed = ?2 WHERE id IN ({OF_RUN})");
    transaction.execute(&numbered, params![run, changed])?;
    let of_run = "UPDATE run SET from_ns = from_ns + ?2, to_ns = to_ns + ?2 WHERE id = ?1";
    transaction.execute(of_run, params![run, by_ns])?;
    transaction.commit()
}
