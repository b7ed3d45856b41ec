// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates the schema of a file, or brings it up to date.

use rusqlite::Connection;

use crate::migrate;
use crate::schema::tables::{INDEX, NAMES, TableInfo, column_names, required_columns, tables};
use crate::schema::views::views;

/// The version that this mpwatch writes. Columns may be added without a new version.
pub(crate) const VERSION: i64 = 3;

/// Brings the schema up to date, in one transaction.
pub(crate) fn upgrade(database: &Connection, version: i64) -> rusqlite::Result<()> {
    let transaction = database.unchecked_transaction()?;
    if version == 0 {
        transaction.execute_batch(NAMES)?;
        tables().iter().try_for_each(|table| table.create(&transaction, table.name))?;
        transaction.execute_batch(INDEX)?;
    } else if version < VERSION {
        migrate::from_version(&transaction, version)?;
    }
    for table in tables() {
        add_missing_columns(&transaction, &table)?;
        allow_unknown_values(&transaction, &table)?;
    }
    for (name, query) in views() {
        replace_view(&transaction, name, &query)?;
    }
    if version < VERSION {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// A file of this version may come from an mpwatch that knew fewer columns.
fn add_missing_columns(database: &Connection, table: &TableInfo) -> rusqlite::Result<()> {
    let known = column_names(database, table.name)?;
    for column in table.columns.iter().filter(|column| !known.contains(&column.name)) {
        let default = if column.required { " DEFAULT 0" } else { "" };
        let declaration = column.declaration();
        database.execute_batch(&format!("ALTER TABLE {} ADD COLUMN {declaration}{default}", table.name))?;
    }
    Ok(())
}

/// Columns of an older file may be NOT NULL although the value can be unknown. SQLite cannot change that, so the table is copied.
fn allow_unknown_values(database: &Connection, table: &TableInfo) -> rusqlite::Result<()> {
    let name = table.name;
    let required = required_columns(database, name)?;
    if !table.columns.iter().any(|column| !column.required && required.contains(&column.name)) {
        return Ok(());
    }
    for (view, _) in views() {
        database.execute_batch(&format!("DROP VIEW IF EXISTS {view}"))?;
    }
    let copy = format!("new_{name}");
    table.create(database, &copy)?;
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let columns = columns.join(", ");
    database.execute_batch(&format!(
        "INSERT INTO {copy} ({columns}) SELECT {columns} FROM {name};
         DROP TABLE {name}; ALTER TABLE {copy} RENAME TO {name}; {INDEX}"
    ))
}

fn replace_view(database: &Connection, name: &str, query: &str) -> rusqlite::Result<()> {
    let wanted = format!("CREATE VIEW {name} AS {query}");
    let mut find = database.prepare("SELECT sql FROM sqlite_schema WHERE type = 'view' AND name = ?")?;
    let found = find.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    if found == [wanted.as_str()] {
        return Ok(());
    }
    database.execute_batch(&format!("DROP VIEW IF EXISTS {name}; {wanted}"))
}
