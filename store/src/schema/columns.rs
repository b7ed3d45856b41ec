// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts values of the model to columns of a table. [`record!`] derives names, writing and reading from one list of fields.

use std::borrow::Cow;

use mpwatch_model::table::ColumnType;
use rusqlite::types::{FromSql, Null, Type, ValueRef};
use rusqlite::{Row, Statement, ToSql};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};

use super::names::{NameIndex, Names};

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Real,
    Text,
    /// Text that many rows share. The column has its number in the table `name`, views show the text.
    Name,
    /// A token. Views show it in hexadecimal, like the JSON.
    Token,
    /// Parts per million, in a column whose name ends in `_ppm`. Views show the fraction, without that suffix in the name.
    Ppm,
}

/// A column of a database table.
#[derive(Clone, Debug)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// NOT NULL.
    pub(crate) required: bool,
}

impl TableColumn {
    pub(crate) fn required(name: &str, kind: Kind) -> Self {
        Self { name: name.to_owned(), kind, required: true }
    }

    /// Its declaration in `CREATE TABLE`.
    pub(crate) fn declaration(&self) -> String {
        let kind = match self.kind {
            Kind::Real => "REAL",
            Kind::Text => "TEXT",
            _ => "INTEGER",
        };
        format!("{} {kind}{}", self.name, if self.required { " NOT NULL" } else { "" })
    }

    /// Type of its values in a view.
    pub(crate) fn shown_type(&self) -> ColumnType {
        match self.kind {
            Kind::Integer => ColumnType::Integer,
            Kind::Real | Kind::Ppm => ColumnType::Real,
            Kind::Text | Kind::Name | Kind::Token => ColumnType::Text,
        }
    }

    /// Its name in a view.
    pub(crate) fn shown_name(&self) -> &str {
        self.name.strip_suffix("_ppm").filter(|_| self.kind == Kind::Ppm).unwrap_or(&self.name)
    }

    /// The expression of its value in a view; `table` is an alias.
    pub(crate) fn shown(&self, table: &str) -> String {
        let column = format!("{table}.{}", self.name);
        match self.kind {
            Kind::Name => format!("(SELECT text FROM name WHERE id = {column})"),
            Kind::Token => format!("CASE WHEN {column} IS NOT NULL THEN printf('%08x', {column}) END"),
            Kind::Ppm => format!("{column} / 1e6"),
            _ => column,
        }
    }
}

/// Binds the parameters of an insertion in order.
pub(crate) struct Binder<'a, 'd> {
    statement: &'a mut Statement<'d>,
    pub(crate) names: &'a mut Names<'d>,
    next: usize,
}

impl<'a, 'd> Binder<'a, 'd> {
    pub(crate) fn new(statement: &'a mut Statement<'d>, names: &'a mut Names<'d>) -> Self {
        Self { statement, names, next: 1 }
    }

    pub(crate) fn value(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.statement.raw_bind_parameter(self.next, value)?;
        self.next += 1;
        Ok(())
    }

    pub(crate) fn name(&mut self, text: &str) -> rusqlite::Result<()> {
        let number = self.names.text(text)?;
        self.value(number)
    }

    pub(crate) fn word(&mut self, word: &'static str) -> rusqlite::Result<()> {
        let number = self.names.word(word)?;
        self.value(number)
    }
}

/// Reads the columns of a row in order.
pub(crate) struct Reader<'a> {
    row: &'a Row<'a>,
    /// Names by number.
    pub(crate) names: &'a NameIndex,
    next: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(row: &'a Row<'a>, names: &'a NameIndex) -> Self {
        Self { row, names, next: 0 }
    }

    pub(crate) fn value<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let value = self.row.get(self.next)?;
        self.next += 1;
        Ok(value)
    }

    pub(crate) fn number<T: TryFrom<i64>>(&mut self) -> rusqlite::Result<T> {
        let value: i64 = self.value()?;
        T::try_from(value).map_err(|_| self.damaged(format!("{value} is out of range")))
    }

    pub(crate) fn name(&mut self) -> rusqlite::Result<&'a str> {
        let number: i64 = self.value()?;
        let text = self.names.texts.get(&number).map(String::as_str);
        text.ok_or_else(|| self.damaged(format!("there is no name {number}")))
    }

    /// A value of an enumeration of the model.
    pub(crate) fn word<T: DeserializeOwned>(&mut self) -> rusqlite::Result<T> {
        let text = self.name()?;
        T::deserialize(StrDeserializer::<WordError>::new(text))
            .map_err(|error| self.damaged(error.to_string()))
    }

    /// A value from the JSON text of the column that was just read.
    pub(crate) fn json<T: DeserializeOwned>(&self, text: &str) -> rusqlite::Result<T> {
        serde_json::from_str(text).map_err(|error| self.damaged(error.to_string()))
    }

    pub(crate) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    fn is_null(&self, columns: usize) -> rusqlite::Result<bool> {
        for column in self.next..self.next + columns {
            if self.row.get_ref(column)? != ValueRef::Null {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The error for the column that was just read.
    pub(crate) fn damaged(&self, why: String) -> rusqlite::Error {
        damaged(self.next.saturating_sub(1), why)
    }
}

/// The error for a value that mpwatch never writes, so that the file must be damaged.
pub(crate) fn damaged(column: usize, why: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Null, why.into())
}

/// A type that is stored in columns.
pub(crate) trait Columns: Sized {
    /// Number of its columns.
    fn count() -> usize {
        1
    }

    /// Appends its columns. `name`: name of the column. A type with several columns uses it as a prefix or ignores it.
    fn describe(name: &str, columns: &mut Vec<TableColumn>);

    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()>;

    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self>;

    /// Sets unknown values to the values of an earlier record of the same connection, subflow or run, and byte counts to the larger value.
    fn fill_unknown(&mut self, _earlier: &Self) {}
}

/// `None` is NULL in every column.
impl<T: Columns + Clone> Columns for Option<T> {
    fn count() -> usize {
        T::count()
    }

    fn describe(name: &str, columns: &mut Vec<TableColumn>) {
        let first = columns.len();
        T::describe(name, columns);
        columns[first..].iter_mut().for_each(|column| column.required = false);
    }

    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
        match self {
            Some(value) => value.bind(to),
            None => (0..T::count()).try_for_each(|_| to.value(Null)),
        }
    }

    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self> {
        if from.is_null(T::count())? {
            from.next += T::count();
            return Ok(None);
        }
        T::read(from).map(Some)
    }

    fn fill_unknown(&mut self, earlier: &Self) {
        match (&mut *self, earlier) {
            (Some(value), Some(earlier)) => value.fill_unknown(earlier),
            (None, earlier) => self.clone_from(earlier),
            (Some(_), None) => {}
        }
    }
}

impl<T: Columns + Clone> Columns for Cow<'_, T> {
    fn count() -> usize {
        T::count()
    }

    fn describe(name: &str, columns: &mut Vec<TableColumn>) {
        T::describe(name, columns);
    }

    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
        self.as_ref().bind(to)
    }

    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self> {
        T::read(from).map(Cow::Owned)
    }
}

/// Lets [`record!`] infer the type of a field.
pub(crate) fn count_of<S, F: Columns>(_: fn(&S) -> &F) -> usize {
    F::count()
}

/// Lets [`record!`] infer the type of a field.
pub(crate) fn describe_of<S, F: Columns>(_: fn(&S) -> &F, name: &str, columns: &mut Vec<TableColumn>) {
    F::describe(name, columns);
}

/// A type of the model that is stored as another type.
pub(crate) trait StoredAs<S: Columns> {
    fn to_stored(&self) -> S;

    fn from_stored(stored: S) -> Self;
}

/// Implements [`Columns`] for structures. The caller lists each field with its column, in the order of the table: `""` for a field whose type
/// names its own columns, `as (T)` for a field stored as a `T`. Fields after `computed` follow from other columns or tables.
macro_rules! record {
    ($($name:ty {
        $($field:ident $column:literal $(as ($stored:ty))?),* $(; computed $($computed:ident),*)?
    })*) => {$(
        impl $crate::schema::columns::Columns for $name {
            fn count() -> usize {
                0 $(+ $crate::schema::columns::record!(@count $field $($stored)?))*
            }

            fn describe(_: &str, columns: &mut Vec<$crate::schema::columns::TableColumn>) {
                $($crate::schema::columns::record!(@describe columns $field $column $($stored)?);)*
            }

            fn bind(&self, to: &mut $crate::schema::columns::Binder<'_, '_>) -> rusqlite::Result<()> {
                let Self { $($field,)* $($($computed: _),*)? } = self;
                $($crate::schema::columns::record!(@bind to $field $($stored)?)?;)*
                Ok(())
            }

            fn read(from: &mut $crate::schema::columns::Reader<'_>) -> rusqlite::Result<Self> {
                Ok(Self {
                    $($field: $crate::schema::columns::record!(@read from $($stored)?),)*
                    $($($computed: Default::default()),*)?
                })
            }

            fn fill_unknown(&mut self, earlier: &Self) {
                $($crate::schema::columns::record!(@fill self earlier $field $($stored)?);)*
            }
        }
    )*};
    (@count $field:ident) => { $crate::schema::columns::count_of(|row: &Self| &row.$field) };
    (@count $field:ident $stored:ty) => { <$stored as $crate::schema::columns::Columns>::count() };
    (@describe $columns:ident $field:ident $column:literal) => {
        $crate::schema::columns::describe_of(|row: &Self| &row.$field, $column, $columns)
    };
    (@describe $columns:ident $field:ident $column:literal $stored:ty) => {
        <$stored as $crate::schema::columns::Columns>::describe($column, $columns)
    };
    (@bind $to:ident $field:ident) => { $crate::schema::columns::Columns::bind($field, $to) };
    (@bind $to:ident $field:ident $stored:ty) => {
        $crate::schema::columns::Columns::bind(&$crate::schema::columns::StoredAs::<$stored>::to_stored($field), $to)
    };
    (@fill $own:ident $earlier:ident $field:ident) => {
        $crate::schema::columns::Columns::fill_unknown(&mut $own.$field, &$earlier.$field)
    };
    (@fill $own:ident $earlier:ident $field:ident $stored:ty) => {
        let mut stored = $crate::schema::columns::StoredAs::<$stored>::to_stored(&$own.$field);
        let earlier = $crate::schema::columns::StoredAs::<$stored>::to_stored(&$earlier.$field);
        $crate::schema::columns::Columns::fill_unknown(&mut stored, &earlier);
        $own.$field = $crate::schema::columns::StoredAs::<$stored>::from_stored(stored);
    };
    (@read $from:ident) => { $crate::schema::columns::Columns::read($from)? };
    (@read $from:ident $stored:ty) => {
        $crate::schema::columns::StoredAs::<$stored>::from_stored($crate::schema::columns::Columns::read($from)?)
    };
}
pub(crate) use record;
