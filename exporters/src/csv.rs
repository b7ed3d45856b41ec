// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV (RFC 4180): one row per subflow, which repeats the columns of its connection. Columns have the names of the JSON keys; nested keys
//! are joined by dots (`process.pid`), and columns of the subflow start with `subflow.`. Empty: unknown. A text that a spreadsheet would take
//! for a formula begins with an apostrophe.

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::subflow::Subflow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::schema::{resolve, schema_of};

/// The path of a value inside a JSON object.
type FieldPath = Vec<String>;

/// All subflows of the connections, with a header row. A connection without subflows has one row, in which their columns are empty.
pub fn list(connections: &[Connection]) -> Result<String, csv::Error> {
    let (connection_paths, subflow_paths) = (columns::<Connection>(), columns::<Subflow>());
    let connection_names = connection_paths.iter().map(|path| path.join("."));
    let subflow_names = subflow_paths.iter().map(|path| format!("subflow.{}", path.join(".")));
    let header = connection_names.chain(subflow_names).collect();
    let rows = connections.iter().flat_map(|connection| {
        let common = fields(connection, &connection_paths);
        let mut subflows: Vec<_> =
            connection.subflows.iter().map(|subflow| fields(subflow, &subflow_paths)).collect();
        if subflows.is_empty() {
            subflows.push(vec![String::new(); subflow_paths.len()]);
        }
        subflows.into_iter().map(move |subflow| [&common[..], &subflow].concat())
    });
    text(std::iter::once(header).chain(rows))
}

/// A text, often a name chosen by others, as a cell: it must not steer a terminal, nor be a formula to a spreadsheet.
pub(crate) fn cell(text: &str) -> String {
    let text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.into_owned() }
}

/// The text of rows.
pub(crate) fn text(rows: impl IntoIterator<Item = Vec<String>>) -> Result<String, csv::Error> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// All scalar values of a type, including nested ones, but not those in lists.
fn columns<T: JsonSchema>() -> Vec<FieldPath> {
    let root = schema_of::<T>();
    let mut paths = Vec::new();
    collect(&root, &root, &[], &mut paths);
    paths
}

fn collect(root: &Value, schema: &Value, parents: &[String], paths: &mut Vec<FieldPath>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        let path = [parents, std::slice::from_ref(name)].concat();
        let resolved = resolve(root, property);
        if resolved["properties"].is_object() {
            collect(root, resolved, &path, paths);
        } else if resolved["type"] != "array" {
            paths.push(path);
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
        Value::String(text) => cell(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_fixtures as fixture;

    fn rows(text: &str) -> Vec<csv::StringRecord> {
        csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes())
            .records()
            .map(Result::unwrap)
            .collect()
    }

    #[test]
    fn each_subflow_has_a_row_that_can_be_read_back() {
        let mut connection = fixture::connection(0x9f3c_0a1b, 2);
        connection.netns = "a,\"b\"".to_owned();
        connection.process = None;
        let rows = rows(&list(&[connection, fixture::failover(1)]).unwrap());
        assert_eq!(rows.len(), 1 + 2 + 3);
        let column = |name: &str| rows[0].iter().position(|title| title == name).unwrap();
        assert_eq!(&rows[1][column("netns")], "a,\"b\"");
        assert_eq!(&rows[1][column("process.pid")], "");
        assert_eq!(&rows[2][column("subflow.local")], "10.0.2.1:43212");
        assert_eq!(&rows[2][column("subflow.srtt_us")], "41600");
        assert_eq!(&rows[3][column("subflow.closed.reason")], "timeout");
        assert_eq!(&rows[3][column("process.comm")], "iperf3");
    }

    #[test]
    fn a_name_is_no_formula_and_does_not_steer_a_terminal() {
        let mut connection = fixture::connection(1, 1);
        for (name, expected) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@sum", "'@sum"),
            ("\t=1", "\u{fffd}=1"),
            ("\r=1", "\u{fffd}=1"),
            ("a\x1b[2J\u{9b}\n\u{202e}", "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            connection.netns = name.to_owned();
            let rows = rows(&list(std::slice::from_ref(&connection)).unwrap());
            let column = rows[0].iter().position(|title| title == "netns").unwrap();
            assert_eq!(&rows[1][column], expected);
        }
    }

    #[test]
    fn a_connection_without_subflows_has_a_row() {
        let mut connection = fixture::connection(1, 1);
        connection.subflows.clear();
        assert_eq!(rows(&list(&[connection]).unwrap()).len(), 2);
        assert_eq!(rows(&list(&[]).unwrap()).len(), 1);
    }
}
