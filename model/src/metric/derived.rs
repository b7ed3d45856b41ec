// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values computed from other values of a connection, subflow or report: rows of the metric table with a column name
//! ([`Metric::column`](crate::metric::row::Metric::column)). JSON, CSV and SQLite add that column automatically.

use schemars::Schema;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use crate::metric::row::Metric;

/// A type with a metric table.
pub trait Tabled: Sized + 'static {
    /// The metric table of the type.
    fn table() -> &'static [Metric<Self>];

    /// Serializes the fields of the type, without the computed values.
    fn serialize_fields<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

/// The computed values of a type, as column names and metrics.
pub fn columns<T: Tabled>() -> impl Iterator<Item = (&'static str, &'static Metric<T>)> {
    T::table().iter().filter_map(|metric| metric.column.map(|column| (column, metric)))
}

#[derive(Serialize)]
#[serde(bound = "T: Tabled")]
struct WithDerived<'a, T> {
    #[serde(flatten, serialize_with = "serialize_fields")]
    fields: &'a T,
    #[serde(flatten, serialize_with = "serialize_derived")]
    derived: &'a T,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn serialize_fields<T: Tabled, S: Serializer>(subject: &&T, serializer: S) -> Result<S::Ok, S::Error> {
    subject.serialize_fields(serializer)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn serialize_derived<T: Tabled, S: Serializer>(subject: &&T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(columns::<T>().map(|(column, metric)| (column, (metric.read)(subject))))
}

/// Serializes the fields of a subject, then its computed values.
pub(crate) fn serialize<T: Tabled, S: Serializer>(subject: &T, serializer: S) -> Result<S::Ok, S::Error> {
    WithDerived { fields: subject, derived: subject }.serialize(serializer)
}

/// Adds the computed values to the JSON Schema of a type. Each computed value may be `null`.
pub(crate) fn extend_schema<T: Tabled>(schema: &mut Schema) {
    let object = schema.ensure_object();
    for (column, metric) in columns::<T>() {
        let property = json!({ "description": metric.help, "type": ["number", "null"], "format": "double" });
        if let Some(Value::Object(properties)) = object.get_mut("properties") {
            properties.insert(column.to_owned(), property);
        }
        if let Some(Value::Array(required)) = object.get_mut("required") {
            required.push(column.into());
        }
    }
}

/// Implements [`Tabled`], `Serialize` and `Deserialize` for a type that derives the two serde traits with `#[serde(remote = "Self")]`.
macro_rules! tabled {
    ($subject:ty, $table:expr) => {
        impl $crate::metric::derived::Tabled for $subject {
            fn table() -> &'static [$crate::metric::row::Metric<Self>] {
                $table
            }

            fn serialize_fields<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$subject>::serialize(self, serializer)
            }
        }

        impl serde::Serialize for $subject {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::metric::derived::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $subject {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$subject>::deserialize(deserializer)
            }
        }
    };
}
pub(crate) use tabled;
