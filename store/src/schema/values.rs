// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage of single values: numbers, times, addresses, words of enumerations.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use jiff::Timestamp;
use mpwatch_model::flow::bottleneck::{DetectionMethod, SharedCap, Verdict};
use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::host::energy::{Convention, EnergySource, IdleSource, SnapshotEnergy};
use mpwatch_model::host::machine::{KernelCounters, Losses, MissingHook};
use mpwatch_model::id::{SocketCookie, SubflowId, Token};
use mpwatch_model::kernel::cpu::CpuAccounts;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason, Protocol, Role, TcpState};
use mpwatch_model::metric::derived::{self, Tabled};
use mpwatch_model::table::{Cell, ColumnType};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Microjoules, Micros, Nanos};
use mpwatch_model::why::answer::{Cause, Certainty, Fix};
use rusqlite::types::ValueRef;

use super::columns::{Binder, Columns, Kind, Reader, StoredAs, TableColumn, damaged};
use super::names::Netns;

/// Implements [`Columns`] for types with one column, given its kind and expressions that bind and read it.
macro_rules! one_column {
    ($($type:ty: $kind:ident, |$value:ident, $to:ident| $bind:expr, |$from:ident| $read:expr $(, $keep:ident)?;)*) => {$(
        impl Columns for $type {
            fn describe(name: &str, columns: &mut Vec<TableColumn>) {
                columns.push(TableColumn::required(name, Kind::$kind));
            }

            fn bind(&self, $to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
                let $value = self;
                $bind
            }

            fn read($from: &mut Reader<'_>) -> rusqlite::Result<Self> {
                $read
            }

            $(fn fill_unknown(&mut self, earlier: &Self) {
                *self = (*self).$keep(*earlier);
            })?
        }
    )*};
}

pub(crate) const DAY_NS: i64 = 86_400_000_000_000;

/// SQLite has no unsigned integers. A counter above 2^63 - 1 is stored as 2^63 - 1.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Nanoseconds since 1970, UTC. The range ends in the year 2262.
pub(crate) fn nanos(at: Timestamp) -> i64 {
    let nanos = at.as_nanosecond();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

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
    // Cookies are only compared for equality, so the sign does not matter.
    SocketCookie: Integer, |value, to| to.value(value.0.cast_signed()), |from| from.value().map(|bits: i64| Self(bits.cast_unsigned()));
    Name: Name, |value, to| to.name(&value.text()), |from| from.word();
    IpAddr: Name, |value, to| { let number = to.names.address(*value)?; to.value(number) },
        |from| { let text = from.name()?; text.parse().map_err(|_| from.damaged(format!("`{text}` is not an address"))) };
    Netns<'_>: Integer, |value, to| { let number = to.names.netns(value)?; to.value(number) },
        |from| { let number: i64 = from.value()?; from.names.netns.get(&number).cloned().ok_or_else(|| from.damaged(format!("there is no namespace {number}"))) };
}

macro_rules! units {
    ($($type:ident),*) => { one_column! { $($type: Integer, |value, to| to.value(signed(value.0)), |from| from.number().map(Self);)* } };
}
units!(Micros, Nanos, Microjoules, BitsPerSecond);
one_column! {
    // The kernel's counters never decrease: if the later value is smaller, the kernel had cleared the counter, and the larger value is kept.
    Bytes: Integer, |value, to| to.value(signed(value.0)), |from| from.number().map(Self), max;
}

macro_rules! as_json {
    ($($type:ty),*) => { one_column! { $($type: Text, |value, to| to.value(json(value)?), |from| { let text: String = from.value()?; from.json(&text) };)* } };
}
as_json!(
    Losses,
    KernelCounters,
    SnapshotEnergy,
    Vec<CpuAccounts>,
    Vec<MissingHook>,
    Vec<SharedCap>,
    Vec<Fix>,
    Vec<String>,
    BTreeMap<String, String>
);

macro_rules! words {
    ($($type:ident),*) => { one_column! { $($type: Name, |value, to| to.word(value.as_str()), |from| from.word();)* } };
}
words!(
    TcpState,
    Progress,
    Role,
    Protocol,
    FallbackReason,
    CloseReason,
    FlowClass,
    EnergySource,
    Convention,
    IdleSource,
    DetectionMethod,
    Certainty,
    Verdict
);

one_column! {
    Shared: Name, |value, to| to.name(&value.0), |from| from.name().map(|text| Self(text.into()));
    Ppm: Ppm, |value, to| to.value(millionths(value.0)), |from| from.value().map(|parts: i64| Self(parts as f64 / 1e6));
    TextId: Text, |value, to| to.value(value.0.to_string()),
        |from| { let text: String = from.value()?; text.parse().map(Self).map_err(|_| from.damaged(format!("`{text}` is not an id"))) };
    Groups: Name, |value, to| to.name(&json(&value.0)?), |from| { let text = from.name()?; from.json(text).map(Self) };
}

/// Groups of subflows, given by their places, as JSON that many rows share.
#[derive(Clone, Debug)]
pub(crate) struct Groups(pub(crate) Vec<Vec<u64>>);

/// Text that many rows share.
#[derive(Clone, Debug)]
pub(crate) struct Shared(pub(crate) Box<str>);

/// A fraction that is stored in parts per million.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ppm(pub(crate) f64);

/// Implements [`StoredAs`], given expressions for both directions.
macro_rules! stored_as {
    ($($type:ty as $stored:ty: |$value:ident| $store:expr, |$from:ident| $restore:expr;)*) => {$(
        impl StoredAs<$stored> for $type {
            fn to_stored(&self) -> $stored {
                let $value = self;
                $store
            }

            fn from_stored($from: $stored) -> Self {
                $restore
            }
        }
    )*};
}

stored_as! {
    String as Shared: |text| Shared(text.as_str().into()), |stored| stored.0.into();
    Option<Arc<Cause>> as Option<Cause>: |cause| cause.as_deref().cloned(), |stored| stored.map(Arc::new);
    Cow<'static, str> as Shared: |text| Shared(text.as_ref().into()), |stored| Cow::Owned(stored.0.into());
    Option<Cow<'static, str>> as Option<Shared>:
        |text| text.as_deref().map(|text| Shared(text.into())), |stored| stored.map(|text| Cow::Owned(text.0.into()));
    Option<String> as Option<Shared>:
        |text| text.as_deref().map(|text| Shared(text.into())), |stored| stored.map(|text| text.0.into());
    f64 as Ppm: |value| Ppm(*value), |stored| stored.0;
    Option<f64> as Option<Ppm>:
        |value| value.filter(|value| value.is_finite()).map(Ppm), |stored| stored.map(|ppm| ppm.0);
}

/// The id of a subflow, stored as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextId(pub(crate) SubflowId);

#[allow(clippy::cast_possible_truncation, reason = "an `as` cast saturates")]
fn millionths(value: f64) -> i64 {
    (value * 1e6).round() as i64
}

impl Columns for SocketAddr {
    fn count() -> usize {
        2
    }

    fn describe(name: &str, columns: &mut Vec<TableColumn>) {
        columns.push(TableColumn::required(&format!("{name}_ip"), Kind::Name));
        columns.push(TableColumn::required(&format!("{name}_port"), Kind::Integer));
    }

    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
        self.ip().bind(to)?;
        to.value(self.port())
    }

    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self> {
        Ok(Self::new(IpAddr::read(from)?, from.number()?))
    }
}

/// Computed columns, one per metric with a column name, for users of the file. mpwatch does not read them back: the model computes them again.
#[derive(Clone, Debug)]
pub(crate) struct Derived<'a, T>(pub(crate) Option<&'a T>);

impl<T: Tabled> Columns for Derived<'_, T> {
    fn count() -> usize {
        derived::columns::<T>().count()
    }

    fn describe(_: &str, columns: &mut Vec<TableColumn>) {
        for (name, _) in derived::columns::<T>() {
            columns.push(TableColumn { required: false, ..TableColumn::required(name, Kind::Real) });
        }
    }

    fn bind(&self, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
        derived::columns::<T>().try_for_each(|(_, metric)| to.value(self.0.and_then(metric.read)))
    }

    fn read(from: &mut Reader<'_>) -> rusqlite::Result<Self> {
        from.skip(Self::count());
        Ok(Self(None))
    }
}

/// JSON text of a value.
fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// The value of a cell in a column of this kind. SQLite may return an integer from an expression that can have a fraction.
pub(crate) fn cell(nth: usize, value: ValueRef<'_>, kind: ColumnType) -> rusqlite::Result<Option<Cell>> {
    Ok(Some(match (value, kind) {
        (ValueRef::Null, _) => return Ok(None),
        (ValueRef::Integer(number), ColumnType::Integer) => Cell::Integer(number),
        (ValueRef::Integer(number), ColumnType::Real) => Cell::Real(number as f64),
        (ValueRef::Integer(number), ColumnType::Text) => Cell::Text(number.to_string()),
        (ValueRef::Real(number), ColumnType::Real) => Cell::Real(number),
        (ValueRef::Text(text) | ValueRef::Blob(text), ColumnType::Text) => {
            Cell::Text(String::from_utf8_lossy(text).into_owned())
        }
        (other, kind) => {
            return Err(damaged(nth, format!("a {} in a column of {kind:?}", other.data_type())));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_the_range_are_clamped() {
        assert_eq!((nanos(Timestamp::MIN), nanos(Timestamp::MAX)), (i64::MIN, i64::MAX));
    }
}
