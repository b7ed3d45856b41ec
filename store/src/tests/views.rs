// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views have the same values as the report from the same file.

use std::net::SocketAddr;

use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};

use super::*;

type Fields = Map<String, Value>;

/// All rows of a view, as JSON.
fn rows(file: &std::path::Path, sql: &str) -> Vec<Fields> {
    let database = Database::open(file).unwrap();
    let mut query = database.prepare(sql).unwrap();
    let names: Vec<String> = query.column_names().into_iter().map(str::to_owned).collect();
    let read = |row: &rusqlite::Row<'_>| {
        let value = |nth: usize| match row.get_ref(nth).unwrap() {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => number.into(),
            ValueRef::Real(number) => number.into(),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
            ValueRef::Blob(_) => panic!("a blob"),
        };
        Ok(names.iter().enumerate().map(|(nth, name)| (name.clone(), value(nth))).collect())
    };
    query.query_map([], read).unwrap().map(Result::unwrap).collect()
}

/// The JSON with nested objects flattened to the column names of the views.
fn flattened(json: Value) -> Fields {
    let Value::Object(mut all) = json else { panic!("not an object") };
    for (object, prefix) in [
        ("energy", ""),
        ("process", ""),
        ("second_path", "second_path_"),
        ("retransmits", "retransmits_"),
        ("scheduler", "scheduler_"),
        ("evidence", ""),
        ("fallback", ""),
        ("cause", "cause_"),
    ] {
        let Some(inner) = all.remove(object) else { continue };
        for (name, value) in inner.as_object().into_iter().flatten() {
            let is_first = object == "fallback" || (object, name.as_str()) == ("cause", "id");
            let name = if is_first { object.to_owned() } else { format!("{prefix}{name}") };
            all.insert(name, value.clone());
        }
    }
    if let Some(busy) = all.remove("busy_ns") {
        let columns = [
            ("total", "busy_ns"),
            ("receive_window", "rwnd_limited_ns"),
            ("send_buffer", "sndbuf_limited_ns"),
        ];
        all.extend(columns.map(|(part, column)| (column.to_owned(), busy[part].clone())));
    }
    // Both `cpu_ns` (by kind of work, and of the energy) are compared separately.
    all.remove("cpu_ns");
    for end in ["local", "remote"] {
        let Some(address) = all.remove(end).and_then(|text| text.as_str()?.parse::<SocketAddr>().ok()) else {
            continue;
        };
        all.insert(format!("{end}_ip"), address.ip().to_string().into());
        all.insert(format!("{end}_port"), address.port().into());
    }
    all
}

fn is_same(found: &Value, given: &Value) -> bool {
    match (found, given) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= 1e-9 * b.as_f64().unwrap().abs()
        }
        (Value::Number(number), Value::Bool(is)) => number.as_i64() == Some((*is).into()),
        (Value::String(json), Value::Array(_)) => {
            serde_json::from_str(json).is_ok_and(|found: Value| found == *given)
        }
        _ => found == given,
    }
}

/// Compares the fields that both have. Returns their number.
fn compare(found: &Fields, given: &Fields) -> usize {
    let both = found.iter().filter_map(|(name, value)| Some((name, value, given.get(name)?)));
    let mut fields = 0;
    for (name, found, given) in both.filter(|(name, ..)| !matches!(name.as_str(), "subflows" | "source")) {
        assert!(is_same(found, given), "{name} is {found} in the view, and {given} in the report");
        fields += 1;
    }
    fields
}

fn filled() -> (TempDir, PathBuf, Report) {
    let (folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, all_kinds()));
    store.close();
    let report = read(&file).0;
    (folder, file, report)
}

#[test]
fn connections_and_subflows_match_the_report() {
    let (_folder, file, report) = filled();
    let connections = rows(&file, "SELECT * FROM v_connection");
    assert_eq!(connections.len(), report.connections.len());
    for row in connections {
        let connection =
            report.connections.iter().find(|connection| row["id"] == connection.id.to_string()).unwrap();
        let mut fields = flattened(serde_json::to_value(connection).unwrap());
        if connection.subflows.is_empty() {
            assert_eq!(
                fields.remove("bytes_retransmitted").zip(Some(&row["bytes_retransmitted"])),
                Some((json!(0), &Value::Null))
            );
        }
        assert!(compare(&row, &fields) >= 20, "{row:?}");
        let cpu = connection.cpu.map(|cpu| cpu.total().0);
        assert_eq!((&row["subflows"], &row["cpu_ns"]), (&json!(connection.subflows.len()), &json!(cpu)));
        assert_eq!(row["opened_at_ns"], json!(connection.opened_at.map(nanos)));
        assert_eq!(row["closed_at_ns"], json!(connection.closed_at.map(nanos)));
        let query =
            format!("SELECT * FROM v_subflow WHERE connection = {} ORDER BY place", row["connection"]);
        let subflows = rows(&file, &query);
        assert_eq!(subflows.len(), connection.subflows.len());
        for (row, subflow) in subflows.iter().zip(&connection.subflows) {
            assert!(compare(row, &flattened(serde_json::to_value(subflow).unwrap())) >= 35, "{row:?}");
            assert_eq!(row["created_at_ns"], json!(subflow.created_at.map(nanos)));
            assert_eq!(row["closed_at_ns"], json!(subflow.closed.map(|closed| nanos(closed.at))));
            assert_eq!(row["cpu_ns"], json!(subflow.cpu.map(|cpu| cpu.total().0)));
            assert_eq!(row["cpu_tx_ns"], json!(subflow.cpu.map(|cpu| cpu.tx.0)));
        }
    }
}

#[test]
fn events_and_verdicts_match_the_report() {
    let (_folder, file, report) = filled();
    for row in rows(&file, "SELECT * FROM v_connection") {
        let connection =
            report.connections.iter().find(|connection| row["id"] == connection.id.to_string()).unwrap();
        let select = |view: &str, order: &str| {
            rows(
                &file,
                &format!("SELECT * FROM {view} WHERE connection = {} ORDER BY {order}", row["connection"]),
            )
        };
        let events: Vec<(i64, String)> = select("v_event", "at_ns, event")
            .iter()
            .map(|event| (event["at_ns"].as_i64().unwrap(), event["event"].as_str().unwrap().to_owned()))
            .collect();
        let mut reported: Vec<(i64, String)> = connection
            .timeline
            .iter()
            .map(|entry| {
                let entry_json = serde_json::to_value(entry).unwrap();
                (nanos(entry.at), entry_json["event"].as_str().unwrap().to_owned())
            })
            .collect();
        reported.sort();
        assert_eq!(events, reported);
        let pairs = connection.bottlenecks.iter().flat_map(|found| &found.pairs);
        let verdicts = select("v_bottleneck", "a, b");
        assert_eq!(verdicts.len(), pairs.clone().count());
        for pair in pairs {
            let row = verdicts
                .iter()
                .find(|row| row["a"] == pair.a.to_string() && row["b"] == pair.b.to_string())
                .unwrap();
            let fields = if pair.evidence.is_some() { 15 } else { 3 };
            assert!(compare(row, &flattened(serde_json::to_value(pair).unwrap())) >= fields, "{row:?}");
        }
    }
}

#[test]
fn the_other_views_have_rows() {
    let (_folder, file, _) = filled();
    for view in ["v_run", "v_energy", "v_peer_daily", "v_flow_class"] {
        assert!(!rows(&file, &format!("SELECT * FROM {view}")).is_empty(), "{view}");
    }
    assert!(!rows(&file, "SELECT * FROM v_sample").is_empty());
}
