// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of the file. Their columns follow from the declarations of rows in [`super::rows`].

use mpwatch_model::table::ColumnType;
use rusqlite::Connection as Database;

use super::columns::TableColumn;
use super::rows::{ConnectionRow, EventRow, PairRow, RunRow, SampleRow, SubflowRow, TableRow};

/// Version of the schema. Columns that may be NULL are added without a new version.
pub(crate) const VERSION: i64 = 1;

/// A table of the schema.
pub(crate) struct TableInfo {
    pub(crate) name: &'static str,
    key: &'static str,
    /// The column with the number of a connection. `None`: its rows do not belong to connections.
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

    /// Creates the table. If its key has several columns, rows are stored in the order of the key.
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
    pub(crate) sql: String,
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

pub(crate) fn tables() -> [TableInfo; 6] {
    [
        TableInfo::new::<RunRow>(),
        TableInfo::new::<ConnectionRow<'_>>(),
        TableInfo::new::<SubflowRow<'_>>(),
        TableInfo::new::<PairRow>(),
        TableInfo::new::<EventRow>(),
        TableInfo::new::<SampleRow>(),
    ]
}

/// The number of the next row of a table, according to the file.
pub(crate) fn next_number(database: &Database, table: &str) -> rusqlite::Result<i64> {
    database.query_row(&format!("SELECT ifnull(max(id), 0) + 1 FROM {table}"), [], |row| row.get(0))
}

/// Finds the row of a connection by its identity.
pub(crate) const INDEX: &str = "CREATE INDEX IF NOT EXISTS connection_birth ON connection (birth)";

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
