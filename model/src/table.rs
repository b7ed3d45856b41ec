// SPDX-License-Identifier: MIT OR Apache-2.0
//! Typed table rows, which the store reads from its views and exports write to files and databases.

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
    /// Name of the column.
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
    /// The text. `None`: the cell is a number.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The whole number. `None`: it is a text, or a number with a fraction.
    pub fn integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }
}

/// A cell of the right type for each column. `None`: the value is unknown.
pub type Row = Vec<Option<Cell>>;
