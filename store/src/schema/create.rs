// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates the tables and views of a file. A file that was created before a column was added gets the column.

use rusqlite::Connection as Database;

use super::tables::{INDEX, NAMES, VERSION, column_names, tables};
use super::views::views;

/// Creates everything that the database lacks, in one transaction. `is_new`: it has no table.
pub(crate) fn create(database: &Database, is_new: bool) -> rusqlite::Result<()> {
    let transaction = database.unchecked_transaction()?;
    if is_new {
        transaction.execute_batch(NAMES)?;
        tables().iter().try_for_each(|table| table.create(&transaction))?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    for table in tables() {
        let existing = column_names(&transaction, table.name)?;
        for column in table.columns.iter().filter(|column| !existing.contains(&column.name)) {
            let declaration = column.declaration();
            transaction.execute_batch(&format!("ALTER TABLE {} ADD COLUMN {declaration}", table.name))?;
        }
    }
    transaction.execute_batch(INDEX)?;
    for (name, query) in views() {
        replace_view(&transaction, name, &query)?;
    }
    transaction.commit()
}

fn replace_view(database: &Database, name: &str, query: &str) -> rusqlite::Result<()> {
    let wanted = format!("CREATE VIEW {name} AS {query}");
    let mut find = database.prepare("SELECT sql FROM sqlite_schema WHERE type = 'view' AND name = ?")?;
    let existing = find.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    if existing == [wanted.as_str()] {
        return Ok(());
    }
    database.execute_batch(&format!("DROP VIEW IF EXISTS {name}; {wanted}"))
}
