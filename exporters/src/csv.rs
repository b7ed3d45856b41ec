// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV (RFC 4180): a row for each subflow, the columns of its connection repeated. Columns are named as in the JSON,
//! `process.pid` for what is nested there; those of the subflow begin with `subflow.`. Empty: not known.

use mpwatch_model::connection::Connection;
use mpwatch_model::subflow::Subflow;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::schema::resolve;

/// The path of a value inside a JSON object.
type FieldPath = Vec<String>;

/// All subflows of these connections, with a header row. A connection without subflows has one row with those columns empty.
pub fn list(connections: &[Connection]) -> Result<String, csv::Error> {
    let (connection_paths, subflow_paths) = (columns::<Connection>(), columns::<Subflow>());
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let connection_names = connection_paths.iter().map(|path| path.join("."));
    let subflow_names = subflow_paths.iter().map(|path| format!("subflow.{}", path.join(".")));
    writer.write_record(connection_names.chain(subflow_names))?;
    for connection in connections {
        let repeated = fields(connection, &connection_paths);
        for subflow in &connection.subflows {
            writer.write_record(repeated.iter().chain(&fields(subflow, &subflow_paths)))?;
        }
        if connection.subflows.is_empty() {
            let unknown = vec![String::new(); subflow_paths.len()];
            writer.write_record(repeated.iter().chain(&unknown))?;
        }
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Every single value of a type, nested ones included, lists left out.
fn columns<T: JsonSchema>() -> Vec<FieldPath> {
    let root: Value =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().into();
    let mut found = Vec::new();
    collect(&root, &root, &[], &mut found);
    found
}

fn collect(root: &Value, schema: &Value, above: &[String], found: &mut Vec<FieldPath>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        let path = [above, std::slice::from_ref(name)].concat();
        let meant = resolve(root, property);
        if meant["properties"].is_object() {
            collect(root, meant, &path, found);
        } else if meant["type"] != "array" {
            found.push(path);
        }
    }
}

fn fields<T: Serialize>(subject: &T, paths: &[FieldPath]) -> Vec<String> {
    let value = serde_json::to_value(subject).unwrap_or_default();
    paths.iter().map(|path| plain(path.iter().fold(&value, |inner, name| &inner[name.as_str()]))).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_model::fixture;

    fn rows(text: &str) -> Vec<csv::StringRecord> {
        csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes())
            .records()
            .map(Result::unwrap)
            .collect()
    }

    #[test]
    fn each_subflow_has_a_row_that_reads_back() {
        let mut connection = fixture::connection(0x9f3c_0a1b, 2);
        connection.netns = "a,\"b\"\nc".to_owned();
        connection.process = None;
        let rows = rows(&list(&[connection, fixture::failover(1)]).unwrap());
        assert_eq!(rows.len(), 1 + 2 + 3);
        let column = |name: &str| rows[0].iter().position(|title| title == name).unwrap();
        assert_eq!(&rows[1][column("netns")], "a,\"b\"\nc");
        assert_eq!(&rows[1][column("process.pid")], "");
        assert_eq!(&rows[2][column("subflow.local")], "10.0.2.1:43212");
        assert_eq!(&rows[2][column("subflow.srtt_us")], "41600");
        assert_eq!(&rows[3][column("subflow.closed.reason")], "timeout");
        assert_eq!(&rows[3][column("process.comm")], "iperf3");
    }

    #[test]
    fn no_subflow_is_a_row_and_no_connection_is_none() {
        let mut connection = fixture::connection(1, 1);
        connection.subflows.clear();
        assert_eq!(rows(&list(&[connection]).unwrap()).len(), 2);
        assert_eq!(rows(&list(&[]).unwrap()).len(), 1);
    }
}
