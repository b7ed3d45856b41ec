// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of JSON objects. Panics with the object if a field has another type.

use serde_json::Value;

/// A number in a JSON object.
#[track_caller]
pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("`{field}` is not an unsigned integer in {value:#}"))
}

/// A string in a JSON object.
#[track_caller]
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("`{field}` is not a string in {value:#}"))
}

/// An array in a JSON object.
#[track_caller]
pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("`{field}` is not an array in {value:#}"))
}
