// SPDX-License-Identifier: MIT OR Apache-2.0
//! A single attribute and its value.

use mpwatch_model::table::Cell;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

pub(super) fn text_attribute(name: &str, text: &str) -> KeyValue {
    attribute(name, Value::StringValue(text.to_owned()))
}

pub(super) fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Integer(number) => Value::IntValue(*number),
        Cell::Real(number) => Value::DoubleValue(*number),
        Cell::Text(text) => Value::StringValue(text.clone()),
    }
}
