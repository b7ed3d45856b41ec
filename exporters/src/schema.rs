// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON Schemas (2020-12) of the outputs, from the model's types and their doc comments.

use mpwatch_model::snapshot::{Report, Snapshot};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Of one line of `mpwatch top --batch --json` and of `mpwatch ls --json`.
pub fn snapshot_schema() -> Value {
    of::<Snapshot>()
}

/// Of `mpwatch replay --format json` and `mpwatch demo --json`.
pub fn report_schema() -> Value {
    of::<Report>()
}

fn of<T: JsonSchema>() -> Value {
    // As we write them: a field that may be null is always there.
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().into()
}

/// The schema that a property or definition means: follows its `$ref`, and the one beside `null` of an optional object.
pub fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return resolve(root, &root["$defs"][name]);
    }
    let alternatives = schema["anyOf"].as_array();
    match alternatives.and_then(|all| all.iter().find(|one| one["type"] != "null")) {
        Some(one) => resolve(root, one),
        None => schema,
    }
}
