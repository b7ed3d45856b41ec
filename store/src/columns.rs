// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a value of the model becomes columns of a table. A type names its columns, writes them and reads them back, in one order;
//! [`record!`] derives all three from a list of fields.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use mpwatch_model::bottleneck::{DetectionMethod, Verdict};
use mpwatch_model::derived::{self, Tabled};
use mpwatch_model::endpoint::Name;
use mpwatch_model::energy::{Convention, EnergySource, IdleSource};
use mpwatch_model::flow_class::FlowClass;
use mpwatch_model::id::{SocketCookie, SubflowId, Token};
use mpwatch_model::lifecycle::{CloseReason, FallbackReason, Protocol, Role, TcpState};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Microjoules, Micros, Nanos};
use rusqlite::types::{FromSql, Null, Type, ValueRef};
use rusqlite::{Row, Statement, ToSql};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};

use crate::names::{NameIndex, Names, Netns};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number.
    Integer,
    /// A number with a fraction.
    Real,
    /// Text.
    Text,
    /// Text that many rows share: its number in the table `name`. Views show the text.
    Name,
    /// A token: views show it in hexadecimal, as the JSON does.
    Token,
    /// Parts per million; the column ends in `_ppm`. Views show the fraction, under the name without that ending.
    Ppm,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// It is never NULL.
    pub(crate) required: bool,
}

impl Column {
    /// Its declaration in `CREATE TABLE`.
    pub(crate) fn declaration(&self) -> String {
        let kind = match self.kind {
            Kind::Real => "REAL",
            Kind::Text => "TEXT",
            _ => "INTEGER",
        };
        format!("{} {kind}{}", self.name, if self.required { " NOT NULL" } else { "" })
    }

    /// Its name in a view.
    pub(crate) fn shown_name(&self) -> &str {
        self.name.strip_suffix("_ppm").filter(|_| self.kind == Kind::Ppm).unwrap_or(&self.name)
    }

    /// Its value in a view, of a table with this alias.
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

/// Sets the parameters of an insertion, one after the other.
pub(crate) struct Binder<'a, 'd> {
    statement: &'a mut Statement<'d>,
    names: &'a mut Names<'d>,
    next: usize,
}

impl<'a, 'd> Binder<'a, 'd> {
    pub(crate) fn new(statement: &'a mut Statement<'d>, names: &'a mut Names<'d>) -> Self {
        Self { statement, names, next: 1 }
    }

    fn value(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.statement.raw_bind_parameter(self.next, value)?;
        self.next += 1;
        Ok(())
    }

    fn name(&mut self, text: &str) -> rusqlite::Result<()> {
        let number = self.names.text(text)?;
        self.value(number)
    }

    fn word(&mut self, word: &'static str) -> rusqlite::Result<()> {
        let number = self.names.word(word)?;
        self.value(number)
    }
}

/// Reads the columns of a row, one after the other.
pub(crate) struct Reader<'a> {
    row: &'a Row<'a>,
    names: &'a NameIndex,
    next: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(row: &'a Row<'a>, names: &'a NameIndex) -> Self {
        Self { row, names, next: 0 }
    }

    fn value<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let value = self.row.get(self.next)?;
        self.next += 1;
        Ok(value)
    }

    fn number<T: TryFrom<i64>>(&mut self) -> rusqlite::Result<T> {
        let value: i64 = self.value()?;
        T::try_from(value).map_err(|_| self.damaged(format!("{value} is out of range")))
    }

    fn name(&mut self) -> rusqlite::Result<&'a str> {
        let number = self.value()?;
        self.names.text(number).ok_or_else(|| self.damaged(format!("there is no name {number}")))
    }

    /// A value of one of the model's enumerations.
    fn word<T: DeserializeOwned>(&mut self) -> rusqlite::Result<T> {
        let text = self.name()?;
        T::deserialize(StrDeserializer::<WordError>::new(text))
            .map_err(|error| self.damaged(error.to_string()))
    }

    fn text<T: std::str::FromStr>(&mut self) -> rusqlite::Result<T> {
        let text: String = self.value()?;
        text.parse().map_err(|_| self.damaged(format!("`{text}` cannot be read")))
    }

    fn is_null(&self, columns: usize) -> rusqlite::Result<bool> {
        for column in self.next..self.next + columns {
            if self.row.get_ref(column)? != ValueRef::Null {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The error for the column that was read last.
    fn damaged(&self, why: String) -> rusqlite::Error {
        damaged(self.next.saturating_sub(1), why)
    }
}

/// The error for a value that no mpwatch writes.
pub(crate) fn damaged(column: usize, why: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Null, why.into())
}

/// A type that is stored in columns.
pub(crate) trait Columns: Sized {
    /// How many columns it takes.
    fn count() -> usize {
        1
    }

    /// Appends its columns. A type with one column gives it this name.
    fn describe(name: &str, columns: &mut Vec<Column>);

    /// Writes its columns.
    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()>;

    /// Reads its columns.
    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self>;
}

fn one_column(name: &str, kind: Kind, columns: &mut Vec<Column>) {
    columns.push(Column { name: name.to_owned(), kind, required: true });
}

/// `None` is NULL in every column.
impl<T: Columns> Columns for Option<T> {
    fn count() -> usize {
        T::count()
    }

    fn describe(name: &str, columns: &mut Vec<Column>) {
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
}

impl<T: Columns + Clone> Columns for Cow<'_, T> {
    fn count() -> usize {
        T::count()
    }

    fn describe(name: &str, columns: &mut Vec<Column>) {
        T::describe(name, columns);
    }

    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
        self.as_ref().bind(to)
    }

    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self> {
        T::read(from).map(Cow::Owned)
    }
}

/// Implements [`Columns`] for a type with one column: its kind, how it is bound and how it is read.
macro_rules! one_column {
    ($($type:ty: $kind:ident, |$value:ident, $to:ident| $bind:expr, |$from:ident| $read:expr;)*) => {$(
        impl Columns for $type {
            fn describe(name: &str, columns: &mut Vec<Column>) {
                one_column(name, Kind::$kind, columns);
            }

            fn bind(&self, $to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
                let $value = self;
                $bind
            }

            fn read($from: &mut Reader<'_>) -> rusqlite::Result<Self> {
                $read
            }
        }
    )*};
}

/// SQLite has no unsigned numbers; a counter above 2^63 is stored as the largest one.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// UTC nanoseconds; good until the year 2262.
pub(crate) fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

/// From UTC nanoseconds.
pub(crate) fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::MAX)
}

one_column! {
    i64: Integer, |value, to| to.value(value), |from| from.value();
    u64: Integer, |value, to| to.value(signed(*value)), |from| from.number();
    u32: Integer, |value, to| to.value(value), |from| from.number();
    u8: Integer, |value, to| to.value(value), |from| from.number();
    bool: Integer, |value, to| to.value(value), |from| from.value();
    f64: Real, |value, to| to.value(value), |from| from.value();
    String: Text, |value, to| to.value(value.as_str()), |from| from.value();
    Timestamp: Integer, |value, to| to.value(nanos(*value)), |from| from.value().map(timestamp);
    Token: Token, |value, to| to.value(value.0), |from| from.number().map(Self);
    // Only equality matters, so the bits are kept and not the value.
    SocketCookie: Integer, |value, to| to.value(value.0.cast_signed()), |from| from.value().map(|bits: i64| Self(bits.cast_unsigned()));
    Name: Name, |value, to| to.name(&value.text()), |from| from.word();
    IpAddr: Name, |value, to| { let number = to.names.address(*value)?; to.value(number) },
        |from| { let text = from.name()?; text.parse().map_err(|_| from.damaged(format!("`{text}` is no address"))) };
    Netns<'_>: Integer, |value, to| { let number = to.names.netns(value)?; to.value(number) },
        |from| { let number = from.value()?; from.names.netns(number).cloned().ok_or_else(|| from.damaged(format!("there is no namespace {number}"))) };
}

macro_rules! units {
    ($($type:ident),*) => { one_column! { $($type: Integer, |value, to| to.value(signed(value.0)), |from| from.number().map(Self);)* } };
}
units!(Bytes, Micros, Nanos, Microjoules, BitsPerSecond);

macro_rules! words {
    ($($type:ident),*) => { one_column! { $($type: Name, |value, to| to.word(value.as_str()), |from| from.word();)* } };
}
words!(
    TcpState,
    Role,
    Protocol,
    FallbackReason,
    CloseReason,
    FlowClass,
    EnergySource,
    Convention,
    IdleSource,
    DetectionMethod
);

one_column! {
    Verdict: Name, |value, to| to.word(verdict_word(*value)), |from| from.word();
    Shared<'_>: Name, |value, to| to.name(&value.0), |from| from.name().map(|text| Self(text.to_owned().into()));
    Ppm: Ppm, |value, to| to.value(millionths(value.0)), |from| from.value().map(|parts: i64| Self(parts as f64 / 1e6));
    TextId: Text, |value, to| to.value(value.0.to_string()), |from| from.text().map(Self);
}

/// Text that many rows have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shared<'a>(pub(crate) Cow<'a, str>);

/// A fraction that is stored in parts per million.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ppm(pub(crate) f64);

/// The id of a subflow as text, which names it without its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextId(pub(crate) SubflowId);

#[allow(clippy::cast_possible_truncation, reason = "an `as` cast saturates")]
fn millionths(value: f64) -> i64 {
    (value * 1e6).round() as i64
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Shared => "shared",
        Verdict::Disjoint => "disjoint",
        Verdict::NoBottleneck => "no_bottleneck",
        Verdict::Unknown => "unknown",
    }
}

impl Columns for SocketAddr {
    fn count() -> usize {
        2
    }

    fn describe(name: &str, columns: &mut Vec<Column>) {
        one_column(&format!("{name}_ip"), Kind::Name, columns);
        one_column(&format!("{name}_port"), Kind::Integer, columns);
    }

    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
        self.ip().bind(to)?;
        to.value(self.port())
    }

    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self> {
        Ok(Self::new(IpAddr::read(from)?, from.number()?))
    }
}

/// The computed values of a subject: a column for each row of the metric table that has a column name. They are for users of the file;
/// reading computes them from the subject, so it yields `None` here.
#[derive(Clone, Debug)]
pub(crate) struct Derived<'a, T>(pub(crate) Option<&'a T>);

impl<T: Tabled> Columns for Derived<'_, T> {
    fn count() -> usize {
        derived::columns::<T>().count()
    }

    fn describe(_: &str, columns: &mut Vec<Column>) {
        for (name, _) in derived::columns::<T>() {
            columns.push(Column { name: name.to_owned(), kind: Kind::Real, required: false });
        }
    }

    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
        derived::columns::<T>().try_for_each(|(_, metric)| to.value(self.0.and_then(metric.read)))
    }

    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self> {
        from.next += Self::count();
        Ok(Self(None))
    }
}

/// A fraction of the model that is stored as [`Ppm`].
pub(crate) trait Fraction: Sized {
    type Stored: Columns;

    fn store(&self) -> Self::Stored;

    fn restore(stored: Self::Stored) -> Self;
}

impl Fraction for f64 {
    type Stored = Ppm;

    fn store(&self) -> Ppm {
        Ppm(*self)
    }

    fn restore(stored: Ppm) -> Self {
        stored.0
    }
}

impl Fraction for Option<f64> {
    type Stored = Option<Ppm>;

    fn store(&self) -> Option<Ppm> {
        self.filter(|value| value.is_finite()).map(Ppm)
    }

    fn restore(stored: Option<Ppm>) -> Self {
        stored.map(|ppm| ppm.0)
    }
}

/// Lets [`record!`] find out the type of a field.
pub(crate) fn count_of<S, F: Columns>(_: fn(&S) -> &F) -> usize {
    F::count()
}

/// Lets [`record!`] find out the type of a field.
pub(crate) fn describe_of<S, F: Columns>(_: fn(&S) -> &F, name: &str, columns: &mut Vec<Column>) {
    F::describe(name, columns);
}

/// Lets [`record!`] find out the type of a field.
pub(crate) fn describe_fraction<S, F: Fraction>(_: fn(&S) -> &F, name: &str, columns: &mut Vec<Column>) {
    F::Stored::describe(name, columns);
}

/// Implements [`Columns`] for structures. Each line has a field and the name of its column, in the order of the table; `""` for a field with
/// several columns, which have names of their own; `ppm` for a fraction that is stored in parts per million. Fields after `computed` follow
/// from other columns and are not stored.
macro_rules! record {
    ($($name:ty { $($field:ident $column:literal $($how:ident)?),* $(; computed $($left:ident),*)? })*) => {$(
        impl $crate::columns::Columns for $name {
            fn count() -> usize {
                0 $(+ $crate::columns::record!(@count $field $($how)?))*
            }

            fn describe(_: &str, columns: &mut Vec<$crate::columns::Column>) {
                $($crate::columns::record!(@describe columns $field $column $($how)?);)*
            }

            fn bind(&self, to: &mut $crate::columns::Binder<'_, '_>) -> rusqlite::Result<()> {
                let Self { $($field,)* $($($left: _),*)? } = self;
                $($crate::columns::record!(@bind to $field $($how)?)?;)*
                Ok(())
            }

            fn read(from: &mut $crate::columns::Reader<'_>) -> rusqlite::Result<Self> {
                Ok(Self {
                    $($field: $crate::columns::record!(@read from $($how)?),)*
                    $($($left: Default::default()),*)?
                })
            }
        }
    )*};
    (@count $field:ident) => { $crate::columns::count_of(|row: &Self| &row.$field) };
    (@count $field:ident ppm) => { 1 };
    (@describe $columns:ident $field:ident $column:literal) => {
        $crate::columns::describe_of(|row: &Self| &row.$field, $column, $columns)
    };
    (@describe $columns:ident $field:ident $column:literal ppm) => {
        $crate::columns::describe_fraction(|row: &Self| &row.$field, $column, $columns)
    };
    (@bind $to:ident $field:ident) => { $crate::columns::Columns::bind($field, $to) };
    (@bind $to:ident $field:ident ppm) => {
        $crate::columns::Columns::bind(&$crate::columns::Fraction::store($field), $to)
    };
    (@read $from:ident) => { $crate::columns::Columns::read($from)? };
    (@read $from:ident ppm) => { $crate::columns::Fraction::restore($crate::columns::Columns::read($from)?) };
}
pub(crate) use record;
