// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates the tables and views of a file. Their columns follow from the declarations of rows in [`super::rows`]. A file that was created
//! before a column was added gets the column.

use mpwatch_model::table::ColumnType;
use rusqlite::Connection as Database;

use super::columns::TableColumn;
use super::rows::{TableRow, tables};
use super::views::views;

/// Version of the schema. Columns that may be NULL are added without a new version.
pub(crate) const VERSION: i64 = 1;

/// A table of the schema.
pub(crate) struct TableInfo {
    pub(crate) name: &'static str,
    key: &'static str,
    /// The column with the number of a connection. `None`: it has no rows of connections.
    pub(crate) of_connection: Option<&'static str>,
    pub(crate) columns: Vec<TableColumn>,
}

impl TableInfo {
    pub(crate) fn new<R: TableRow>() -> Self {
        let mut columns = Vec::with_capacity(R::count());
        R::describe("", &mut columns);
        let of_connection = match R::NAME {
            "run" => None,
            "connection" => Some("id"),
            _ => Some("connection"),
        };
        Self { name: R::NAME, key: R::KEY, of_connection, columns }
    }

    /// Creates it. If its key has several columns, rows are stored in the order of the key.
    pub(crate) fn create(&self, database: &Database) -> rusqlite::Result<()> {
        let columns: Vec<String> = self.columns.iter().map(TableColumn::declaration).collect();
        let layout = if self.key.contains(',') { "STRICT, WITHOUT ROWID" } else { "STRICT" };
        let (name, columns, key) = (self.name, columns.join(",\n    "), self.key);
        database.execute_batch(&format!(
            "CREATE TABLE {name} (\n    {columns},\n    PRIMARY KEY ({key})\n) {layout}"
        ))
    }

    /// Its columns as a view shows them, without those in `hidden`.
    pub(crate) fn shown(&self, alias: &str, hidden: &[&str]) -> Vec<ViewColumn> {
        let shown = self.columns.iter().filter(|column| !hidden.contains(&column.name.as_str()));
        shown
            .map(|column| ViewColumn::new(column.shown_name(), column.shown_type(), column.shown(alias)))
            .collect()
    }
}

/// A column of a view.
pub(crate) struct ViewColumn {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    /// The expression of its value.
    sql: String,
}

impl ViewColumn {
    pub(crate) fn new(name: &str, kind: ColumnType, sql: impl Into<String>) -> Self {
        Self { name: name.to_owned(), kind, sql: sql.into() }
    }

    /// Whether its values have a meaning within one database file only.
    pub(crate) fn is_local(&self) -> bool {
        LOCAL_COLUMNS.contains(&self.name.as_str())
    }
}

/// Columns of views whose values have a meaning within one database file only. Exports omit them.
pub(crate) const LOCAL_COLUMNS: [&str; 3] = ["connection", "run", "runs"];

/// The columns of a `SELECT`.
pub(crate) fn listed(columns: &[ViewColumn]) -> String {
    let columns: Vec<String> =
        columns.iter().map(|column| format!("{} AS {}", column.sql, column.name)).collect();
    columns.join(", ")
}

/// Finds the row of a connection by its identity.
const INDEX: &str = "CREATE INDEX IF NOT EXISTS connection_birth ON connection (birth)";

/// Text and namespaces that many rows share.
pub(crate) const NAMES: &str = "
CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE netns (id INTEGER PRIMARY KEY, cookie INTEGER NOT NULL, inode INTEGER NOT NULL, name TEXT NOT NULL,
    UNIQUE (cookie, inode, name)) STRICT;
";

/// Names of the columns of a table or view.
pub(crate) fn column_names(database: &Database, name: &str) -> rusqlite::Result<Vec<String>> {
    let mut query = database.prepare("SELECT name FROM pragma_table_info(?)")?;
    query.query_map([name], |row| row.get(0))?.collect()
}

/// Creates everything that the database lacks, in one transaction. `is_new`: it has no table.
pub(crate) fn create(database: &Database, is_new: bool) -> rusqlite::Result<()> {
    let transaction = database.unchecked_transaction()?;
    if is_new {
        transaction.execute_batch(NAMES)?;
        tables().iter().try_for_each(|table| table.create(&transaction))?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    for table in tables() {
        add_missing_columns(&transaction, &table)?;
    }
    transaction.execute_batch(INDEX)?;
    for (name, query) in views() {
        replace_view(&transaction, name, &query)?;
    }
    transaction.commit()
}

fn add_missing_columns(database: &Database, table: &TableInfo) -> rusqlite::Result<()> {
    let existing = column_names(database, table.name)?;
    for column in table.columns.iter().filter(|column| !existing.contains(&column.name)) {
        let declaration = column.declaration();
        database.execute_batch(&format!("ALTER TABLE {} ADD COLUMN {declaration}", table.name))?;
    }
    Ok(())
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
