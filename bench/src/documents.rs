// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates docs/json.md and METRICS.md from the schemas and the metric table. A test fails if a file is not current.

use std::fmt::Write as _;

use mpwatch_exporters::prometheus;
use mpwatch_model::metric::{CONNECTION, Metric, SUBFLOW, Unit};
use serde_json::Value;

use crate::schema::{report_schema, resolve, snapshot_schema};

const JSON_INTRODUCTION: &str = "\
# The JSON that mpwatch writes (schema 1)

<!-- Generated from model/src by tests/tests/unit/docs_generated.rs. Change the doc comments there, then run
     MPWATCH_BLESS=1 cargo test --workspace --test unit docs_generated -->

A **snapshot** is one object per line: `mpwatch top --batch --json`, `mpwatch ls --json`. A **report** is one object about a whole run:
`mpwatch replay --format json`, `mpwatch demo --json`. `mpwatch show ID --json` prints one object of `connections`.
JSON Schemas: [snapshot.schema.json](snapshot.schema.json), [report.schema.json](report.schema.json).

- Every field is always present. `null` means *unknown* or *not applicable*, never zero; the last column says when a field is `null`.
- Units are in the name of a field or in the column *unit*. Counters are totals since the flow was opened, rates are over the interval.
- Times are RFC 3339 in UTC. Addresses are `address:port`, with IPv6 addresses in brackets. Ids and tokens are strings.
- A closed connection appears in two more snapshots or longer, with its final counters. Its last object is the complete record.
- New fields may be added at any time. The meaning of a field changes only with `schema`.
- A *tick* is a reading of the kernel's counters, usually one per snapshot. Marks such as `[UPD18]` refer to [references.md](references.md).

The busiest subflow of each connection:

```
mpwatch ls --json | jq -r '.connections[] | .id as $id | .subflows | max_by(.bytes_sent) | [$id, .interface, .bytes_sent] | @tsv'
```
";

const METRICS_INTRODUCTION: &str = "\
# Metrics

<!-- Generated from model/src/metric/mod.rs and model/src/metric/ by tests/tests/unit/docs_generated.rs. Change the tables there, then run
     MPWATCH_BLESS=1 cargo test --workspace --test unit docs_generated -->

The metrics that the daemon exports to Prometheus. An unknown value has no series; it is never exported as zero. Counters never decrease: the
bytes of a closed flow stay in every sum. For a connection that is older than the daemon, sums include only traffic after the daemon's start.
If both ends of a connection are on this machine, sums contain its payload once as sent and once as received.

The number of series does not grow with the number of flows. Interfaces have at most 64 label values, peers and control groups 100 each; the
rest is summed in `__other__`. Interfaces with the same name in several namespaces share a label value. With `--metrics.top-flows N`, the N
largest connections and up to 8 subflows of each have separate series, as have up to N connections closed in the last five minutes;
`connection=\"__other__\"` is the sum of all other connections. The counters of a connection start when it becomes one of the largest, so that all
series always add up to the total of the host.
";

const SCREEN_INTRODUCTION: &str = "
## Column titles

The values of a flow, with their column titles on the screen and in reports. Rates are not exported: Prometheus computes them with `rate()`.
";

/// docs/json.md.
pub fn json_md() -> String {
    let (snapshot, report) = (snapshot_schema(), report_schema());
    let mut text = JSON_INTRODUCTION.to_owned();
    text.push_str(&object("Snapshot", &snapshot, &snapshot));
    text.push_str(&object("Report", &report, &report));
    // The definitions in the report's schema come first, then definitions that are only in the snapshot's schema.
    let definitions_of = |root: &'_ Value| root["$defs"].as_object().cloned().unwrap_or_default();
    let shared = definitions_of(&report);
    let snapshot_only = definitions_of(&snapshot).into_iter().filter(|(name, _)| !shared.contains_key(name));
    let definitions: Vec<(String, Value, &Value)> = shared
        .iter()
        .map(|(name, schema)| (name.clone(), schema.clone(), &report))
        .chain(snapshot_only.map(|(name, schema)| (name, schema, &snapshot)))
        .collect();
    for (name, schema, root) in definitions.iter().filter(|(_, schema, _)| has_fields(schema)) {
        text.push_str(&object(name, schema, root));
    }
    for (name, schema, _) in definitions.iter().filter(|(_, schema, _)| is_enumeration(schema)) {
        text.push_str(&enumeration(name, schema));
    }
    text
}

/// METRICS.md.
pub fn metrics_md() -> String {
    let mut text = METRICS_INTRODUCTION.to_owned();
    for section in prometheus::sections() {
        let _ = write!(
            text,
            "\n## {}\n\n| name | kind | unit | labels | meaning |\n|---|---|---|---|---|\n",
            section.title
        );
        for metric in section.families {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let (kind, unit) = (metric.kind.as_str(), unit_word(metric.unit));
            let (name, labels, help) = (metric.name, labels.join(", "), metric.help);
            let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {labels} | {help} |");
        }
    }
    text.push_str(SCREEN_INTRODUCTION);
    text.push_str(&titles("A connection", CONNECTION));
    text.push_str(&titles("A subflow", SUBFLOW));
    text
}

fn titles<T>(heading: &str, table: &[Metric<T>]) -> String {
    let mut text = format!("\n### {heading}\n\n| title | unit | name | meaning |\n|---|---|---|---|\n");
    for metric in table {
        let unit = unit_word(metric.unit);
        let _ = writeln!(text, "| {} | {unit} | `{}` | {} |", metric.title, metric.name, metric.help);
    }
    text
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Seconds => "s",
        Unit::BitsPerSecond => "bit/s",
        Unit::Ratio => "0 to 1",
        Unit::Segments => "segments",
        Unit::Joules => "joules",
        Unit::Watts => "W",
        Unit::JoulesPerGigabyte => "J/GB",
        Unit::Count => "",
    }
}

fn object(name: &str, schema: &Value, root: &Value) -> String {
    let about = description(schema);
    let mut text = format!(
        "\n## {name}\n\n{about}\n\n| field | type | unit | meaning | `null` |\n|---|---|---|---|---|\n"
    );
    for (field, property) in schema["properties"].as_object().into_iter().flatten() {
        text.push_str(&row(&format!("`{field}`"), field, property, root));
    }
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        text.push_str(&variant_rows(variant, root));
    }
    text
}

fn row(label: &str, field: &str, property: &Value, root: &Value) -> String {
    let (meaning, null) = split_at_null(&description(property));
    let null = match (nullable(property), null) {
        (false, _) => String::new(),
        (true, Some(when)) => when,
        (true, None) => "unknown".to_owned(),
    };
    let unit = unit(field, property);
    format!("| {label} | {} | {unit} | {} | {} |\n", kind(property, root), cell(&meaning), cell(&null))
}

/// The rows of one variant, such as a timeline event: its tag, its own fields, and a link to the fields of the type that it contains.
fn variant_rows(variant: &Value, root: &Value) -> String {
    let mut text = String::new();
    for (field, property) in variant["properties"].as_object().into_iter().flatten() {
        match property["const"].as_str() {
            Some(tag) => {
                let _ =
                    writeln!(text, "| `{field}`: `{tag}` |  |  | **{}** |  |", cell(&description(variant)));
            }
            None => text.push_str(&row(&format!("- `{field}`"), field, property, root)),
        }
    }
    if let Some(name) = definition_name(variant) {
        let _ = writeln!(text, "| - |  |  | The fields of [{name}](#{}). |  |", name.to_lowercase());
    }
    text
}

fn enumeration(name: &str, schema: &Value) -> String {
    let mut text = format!("\n## {name}\n\n{}\n\n| value | meaning |\n|---|---|\n", description(schema));
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        if let Some(value) = variant["const"].as_str() {
            let _ = writeln!(text, "| `{value}` | {} |", cell(&description(variant)));
        }
        for value in values(variant) {
            let _ = writeln!(text, "| `{value}` | |");
        }
    }
    for value in values(schema) {
        let _ = writeln!(text, "| `{value}` | |");
    }
    text
}

fn values(schema: &Value) -> impl Iterator<Item = &str> {
    schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn is_enumeration(schema: &Value) -> bool {
    schema["enum"].is_array() || (schema["oneOf"].is_array() && !has_fields(schema))
}

/// Whether a type is an object: it has fields, or its variants have fields.
fn has_fields(schema: &Value) -> bool {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    schema["properties"].is_object() || variants.into_iter().any(|variant| variant["properties"].is_object())
}

/// The type of a property. For an object or an enumeration, a link to its section.
fn kind(property: &Value, root: &Value) -> String {
    let is_list = |types: &Value| {
        types == "array" || types.as_array().is_some_and(|list| list.contains(&"array".into()))
    };
    if is_list(&property["type"]) {
        return format!("list of {}", kind(&property["items"], root));
    }
    let meant = resolve(root, property);
    if has_fields(meant) || is_enumeration(meant) {
        let name = definition_name(property).unwrap_or("object");
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let basic = meant["type"]
        .as_str()
        .or_else(|| meant["type"].as_array()?.iter().filter_map(Value::as_str).find(|kind| *kind != "null"));
    match (basic, meant["format"].as_str()) {
        (Some("string"), Some("date-time")) => "time".to_owned(),
        (Some(word), _) => word.to_owned(),
        (None, _) => "any".to_owned(),
    }
}

/// The name of the definition to which a property refers, directly or as an alternative to `null`. `None`: no definition.
fn definition_name(property: &Value) -> Option<&str> {
    let direct = property["$ref"].as_str();
    let or_null = || property["anyOf"].as_array()?.iter().find_map(|variant| variant["$ref"].as_str());
    direct.or_else(or_null)?.rsplit('/').next()
}

fn unit(field: &str, property: &Value) -> &'static str {
    match definition_name(property) {
        Some("Micros") => "us",
        Some("Bytes") => "bytes",
        Some("BitsPerSecond") => "bit/s",
        _ if field.ends_with("_s") => "s",
        _ if field.contains("segments") => "segments",
        _ if field.ends_with("_ratio") || field.ends_with("_index") || field.starts_with("share_") => {
            "0 to 1"
        }
        _ => "",
    }
}

fn description(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a description into its meaning and the part about `null`.
fn split_at_null(text: &str) -> (String, Option<String>) {
    let Some(start) = text.find("`null`") else { return (text.to_owned(), None) };
    let (before, after) = text.split_at(start);
    // In "`null`: plain TCP. More." the part about `null` ends with its sentence.
    let after = after.trim_start_matches("`null`").trim_start_matches(':').trim();
    let (when, rest) = after.split_once(". ").unwrap_or((after, ""));
    (format!("{before}{rest}").trim().to_owned(), Some(when.trim_end_matches('.').to_owned()))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Whether a property may be `null`.
fn nullable(schema: &Value) -> bool {
    let typed = schema["type"].as_array().is_some_and(|types| types.iter().any(|kind| kind == "null"));
    let any =
        schema["anyOf"].as_array().is_some_and(|all| all.iter().any(|variant| variant["type"] == "null"));
    typed || any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meaning_of_null_is_separated_from_the_description() {
        let (meaning, null) = split_at_null("Local token. `null`: plain TCP, or worse. Eight digits.");
        assert_eq!(meaning, "Local token. Eight digits.");
        assert_eq!(null.as_deref(), Some("plain TCP, or worse"));
        assert_eq!(split_at_null("When. `null` while it is open.").1.as_deref(), Some("while it is open"));
        assert_eq!(split_at_null("When."), ("When.".to_owned(), None));
    }
}
