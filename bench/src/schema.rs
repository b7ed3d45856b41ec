// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON Schemas (2020-12) of the outputs, generated from the model's types and their doc comments.

use mpwatch_model::snapshot::{Report, Snapshot};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The schema of a line of `mpwatch top --batch --json` and of `mpwatch ls --json`.
pub fn snapshot_schema() -> Value {
    schema_of::<Snapshot>()
}

/// The schema of `mpwatch replay --format json` and `mpwatch demo --json`.
pub fn report_schema() -> Value {
    schema_of::<Report>()
}

fn schema_of<T: JsonSchema>() -> Value {
    // `for_serialize`: a field that may be null is required, because mpwatch always writes it.
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().into()
}

/// Resolves a property or definition: follows `$ref`, and replaces the alternatives `null` and a type by the type.
pub fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return resolve(root, &root["$defs"][name]);
    }
    let alternatives = schema["anyOf"].as_array();
    match alternatives.and_then(|all| all.iter().find(|schema| schema["type"] != "null")) {
        Some(alternative) => resolve(root, alternative),
        None => schema,
    }
}
