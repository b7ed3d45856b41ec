// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of the file, as the declarations of their rows say.

use mpwatch_model::table::ColumnType;
use rusqlite::Connection;

use crate::schema::columns::Column;
use crate::schema::rows::{ConnectionRow, EventRow, PairRow, RunRow, SampleRow, SubflowRow, Table};

/// A table of the schema.
pub(crate) struct TableInfo {
    pub(crate) name: &'static str,
    key: &'static str,
    pub(crate) columns: Vec<Column>,
}

impl TableInfo {
    pub(crate) fn of<R: Table>() -> Self {
        let mut columns = Vec::with_capacity(R::count());
        R::describe("", &mut columns);
        Self { name: R::NAME, key: R::KEY, columns }
    }

    /// Creates it under a name. Rows of a key with several columns are stored in the order of the key.
    pub(crate) fn create(&self, database: &Connection, name: &str) -> rusqlite::Result<()> {
        let columns: Vec<String> = self.columns.iter().map(Column::declaration).collect();
        let layout = if self.key.contains(',') { "STRICT, WITHOUT ROWID" } else { "STRICT" };
        let columns = columns.join(",\n    ");
        database.execute_batch(&format!(
            "CREATE TABLE {name} (\n    {columns},\n    PRIMARY KEY ({})\n) {layout}",
            self.key
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
}

/// The columns of a `SELECT`.
pub(crate) fn listed(columns: &[ViewColumn]) -> String {
    let columns: Vec<String> =
        columns.iter().map(|column| format!("{} AS {}", column.sql, column.name)).collect();
    columns.join(", ")
}

/// All tables whose rows are declared in [`crate::schema::rows`].
pub(crate) fn tables() -> [TableInfo; 6] {
    [
        TableInfo::of::<RunRow>(),
        TableInfo::of::<ConnectionRow<'_>>(),
        TableInfo::of::<SubflowRow<'_>>(),
        TableInfo::of::<PairRow>(),
        TableInfo::of::<EventRow>(),
        TableInfo::of::<SampleRow>(),
    ]
}

/// Connections that another run may see again.
pub(crate) const INDEX: &str =
    "CREATE INDEX IF NOT EXISTS connection_open ON connection (run) WHERE closed = 0";

/// Text and namespaces that many rows share.
pub(crate) const NAMES: &str = "
CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE netns (id INTEGER PRIMARY KEY, cookie INTEGER NOT NULL, inode INTEGER NOT NULL, name TEXT NOT NULL,
    UNIQUE (cookie, inode, name)) STRICT;
";

/// Names of the columns of a table that are NOT NULL, apart from its key.
pub(crate) fn required_columns(database: &Connection, name: &str) -> rusqlite::Result<Vec<String>> {
    let mut query = database.prepare("SELECT name FROM pragma_table_info(?) WHERE \"notnull\" AND pk = 0")?;
    query.query_map([name], |row| row.get(0))?.collect()
}

/// Names of the columns of a table or view.
pub(crate) fn column_names(database: &Connection, name: &str) -> rusqlite::Result<Vec<String>> {
    let mut query = database.prepare("SELECT name FROM pragma_table_info(?)")?;
    query.query_map([name], |row| row.get(0))?.collect()
}
