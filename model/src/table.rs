// SPDX-License-Identifier: MIT OR Apache-2.0
//! Typed table rows: the store reads them from its views, exports write them to files and databases.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Whole numbers, signed, 64 bits.
    Integer,
    /// Numbers with a fraction, 64 bits.
    Real,
    /// Text in UTF-8.
    Text,
}

/// A column of a table. Its name ends in its unit, as in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Type of its cells.
    pub kind: ColumnType,
}

impl Column {
    /// A column with this name.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        Self { name: name.into(), kind }
    }
}

/// A known value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A cell of a column of type [`ColumnType::Integer`].
    Integer(i64),
    /// A cell of a column of type [`ColumnType::Real`].
    Real(f64),
    /// A cell of a column of type [`ColumnType::Text`].
    Text(String),
}

impl Cell {
    /// The text. `None`: it is a number.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The whole number. `None`: it is text, or of a column with fractions.
    pub fn integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }
}

/// A cell for each column, of its type. `None`: unknown.
pub type Row = Vec<Option<Cell>>;
