// SPDX-License-Identifier: MIT OR Apache-2.0
//! OTLP, the protocol of OpenTelemetry: a log event for each closed connection, in protobuf. Attributes have the names of the semantic
//! conventions where there is one; others are `mptcp.` or `flow.energy.` and the column of the database, which ends in its unit.

use mpwatch_model::table::{Cell, Column, Row};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use ring::digest::{SHA256, digest};

use crate::end::{End, EndColumns, pair};

/// Name of the event.
const EVENT: &str = "mptcp.connection.closed";
/// Columns with a name in the semantic conventions.
const CONVENTIONS: [(&str, &str); 7] = [
    ("local_ip", "network.local.address"),
    ("local_port", "network.local.port"),
    ("remote_ip", "network.peer.address"),
    ("remote_port", "network.peer.port"),
    ("pid", "process.pid"),
    ("comm", "process.executable.name"),
    ("cgroup", "process.linux.cgroup"),
];
/// Columns about energy.
const ENERGY: [&str; 6] = ["active_uj", "lo_uj", "hi_uj", "full_uj", "energy_source", "j_per_gb"];
/// Columns that the resource has.
const OF_RESOURCE: [&str; 2] = ["host", "boot_id"];

/// An event, and the host that it comes from.
struct Event {
    resource: Vec<KeyValue>,
    record: LogRecord,
}

/// The body of a request to `/v1/logs`, not compressed. `ends`: each with the time at which it was read, nanoseconds since 1970. Open
/// connections are omitted.
pub fn request<'a>(
    ends: impl IntoIterator<Item = (&'a End, u64)>,
    columns: &EndColumns,
    mpwatch: &str,
) -> Vec<u8> {
    let mut all: Vec<ResourceLogs> = Vec::new();
    for (end, read_ns) in ends {
        let Some(Event { resource, record }) = event(end, columns, read_ns) else { continue };
        let of_host =
            all.iter_mut().find(|logs| logs.resource.as_ref().is_some_and(|one| one.attributes == resource));
        match of_host.and_then(|logs| logs.scope_logs.first_mut()) {
            Some(logs) => logs.log_records.push(record),
            None => all.push(logs_of(resource, record, mpwatch)),
        }
    }
    ExportLogsServiceRequest { resource_logs: all }.encode_to_vec()
}

/// What a server that has accepted a request in part says about the rest: how many events it has rejected, and why. `None`: it has accepted
/// everything.
pub fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let partial = ExportLogsServiceResponse::decode(answer).ok()?.partial_success?;
    let count = u64::try_from(partial.rejected_log_records).unwrap_or_default();
    (count > 0).then_some((count, partial.error_message))
}

fn logs_of(resource: Vec<KeyValue>, record: LogRecord, mpwatch: &str) -> ResourceLogs {
    let scope = InstrumentationScope {
        name: "mpwatch".to_owned(),
        version: mpwatch.to_owned(),
        ..InstrumentationScope::default()
    };
    let logs = ScopeLogs { scope: Some(scope), log_records: vec![record], ..ScopeLogs::default() };
    let resource = Resource { attributes: resource, ..Resource::default() };
    ResourceLogs { resource: Some(resource), scope_logs: vec![logs], ..ResourceLogs::default() }
}

/// The event of a connection. `None`: it is open.
fn event(end: &End, columns: &EndColumns, read_ns: u64) -> Option<Event> {
    let cell = |name: &str| {
        let place = columns.connection.iter().position(|column| column.name == name)?;
        end.connection.get(place)?.as_ref()
    };
    let text = |name: &str| match cell(name) {
        Some(Cell::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let closed_ns = match cell("closed_at_ns") {
        Some(Cell::Integer(at)) => u64::try_from(*at).ok()?,
        _ => return None,
    };
    let mut attributes = vec![attribute("network.transport", Value::StringValue("tcp".to_owned()))];
    if let Some(address) = text("local_ip") {
        let kind = if address.contains(':') { "ipv6" } else { "ipv4" };
        attributes.push(attribute("network.type", Value::StringValue(kind.to_owned())));
    }
    let named = columns.connection.iter().filter(|column| !OF_RESOURCE.contains(&column.name.as_str()));
    attributes.extend(named.filter_map(|column| Some(attribute(&name(column), value(cell(&column.name)?)))));
    attributes.push(attribute("mptcp.subflow", list(&columns.subflow, &end.subflows)));
    let mut resource = vec![attribute("service.name", Value::StringValue("mpwatch".to_owned()))];
    for (column, name) in [("host", "host.name"), ("boot_id", "mpwatch.boot_id")] {
        resource.extend(text(column).map(|text| attribute(name, Value::StringValue(text.to_owned()))));
    }
    let record = LogRecord {
        time_unix_nano: closed_ns,
        observed_time_unix_nano: read_ns,
        severity_number: SeverityNumber::Info.into(),
        severity_text: "INFO".to_owned(),
        attributes,
        trace_id: pair(text("token"), text("remote_token")).map(trace_id).unwrap_or_default(),
        span_id: hash(
            &[text("boot_id").unwrap_or_default(), "\n", text("id").unwrap_or_default()].concat(),
            8,
        ),
        event_name: EVENT.to_owned(),
        ..LogRecord::default()
    };
    Some(Event { resource, record })
}

/// Both ends of a connection compute the same.
fn trace_id(pair: u64) -> Vec<u8> {
    hash(&format!("mptcp pair {pair:016x}"), 16)
}

/// The first bytes of a hash of a text.
fn hash(text: &str, bytes: usize) -> Vec<u8> {
    digest(&SHA256, text.as_bytes()).as_ref().iter().copied().take(bytes).collect()
}

fn name(column: &Column) -> String {
    let name = column.name.as_str();
    match CONVENTIONS.iter().find(|(known, _)| *known == name) {
        Some((_, convention)) => (*convention).to_owned(),
        None if ENERGY.contains(&name) => format!("flow.energy.{}", name.trim_start_matches("energy_")),
        None => format!("mptcp.{name}"),
    }
}

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Integer(number) => Value::IntValue(*number),
        Cell::Real(number) => Value::DoubleValue(*number),
        Cell::Text(text) => Value::StringValue(text.clone()),
    }
}

/// A list of maps. An unknown value is not in its map.
fn list(columns: &[Column], rows: &[Row]) -> Value {
    let map = |row: &Row| {
        let known = columns.iter().zip(row).filter_map(|(column, cell)| Some((column, cell.as_ref()?)));
        let values = known.map(|(column, cell)| attribute(&column.name, value(cell))).collect();
        AnyValue { value: Some(Value::KvlistValue(KeyValueList { values })) }
    };
    Value::ArrayValue(ArrayValue { values: rows.iter().map(map).collect() })
}

#[cfg(test)]
mod tests {
    use mpwatch_model::table::ColumnType::{Integer, Text};
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsPartialSuccess;

    use super::*;

    fn columns() -> EndColumns {
        let text = ["host", "boot_id", "id", "token", "remote_token", "local_ip", "comm", "energy_source"];
        let mut connection: Vec<Column> = text.into_iter().map(|name| Column::new(name, Text)).collect();
        connection.extend(["closed_at_ns", "active_uj", "bytes_sent"].map(|name| Column::new(name, Integer)));
        EndColumns { connection, subflow: vec![Column::new("srtt_us", Integer)], bottleneck: Vec::new() }
    }

    fn end(host: &str, tokens: [&str; 2], closed: Option<i64>) -> End {
        let text = |text: &str| Some(Cell::Text(text.to_owned()));
        let connection = vec![
            text(host),
            text("boot"),
            text("1-2-3"),
            text(tokens[0]),
            text(tokens[1]),
            text("fd00::1"),
            text("curl"),
            text("model"),
            closed.map(Cell::Integer),
            None,
            Some(Cell::Integer(7)),
        ];
        End { connection, subflows: vec![vec![Some(Cell::Integer(9))], vec![None]], bottlenecks: Vec::new() }
    }

    fn events(ends: &[End]) -> Vec<ResourceLogs> {
        let body = request(ends.iter().map(|end| (end, 99)), &columns(), "1.2.3");
        ExportLogsServiceRequest::decode(&body[..]).unwrap().resource_logs
    }

    #[test]
    fn both_ends_have_one_trace_and_each_its_span() {
        let ends = [end("a", ["1", "2"], Some(5)), end("b", ["2", "1"], Some(6)), end("b", ["3", "4"], None)];
        let logs = events(&ends);
        assert_eq!(logs.len(), 2, "a resource for each host");
        let [one, other] = [&logs[0], &logs[1]].map(|logs| &logs.scope_logs[0].log_records[0]);
        assert_eq!((one.trace_id.len(), one.span_id.len()), (16, 8));
        assert_eq!(one.trace_id, other.trace_id);
        assert_eq!(logs[1].scope_logs[0].log_records.len(), 1, "an open connection is no event");
        assert_eq!((one.time_unix_nano, one.observed_time_unix_nano), (5, 99));
    }

    #[test]
    fn attributes_have_conventional_names_and_unknown_values_are_absent() {
        let logs = events(&[end("a", ["1", "2"], Some(5))]);
        let record = &logs[0].scope_logs[0].log_records[0];
        let names: Vec<&str> = record.attributes.iter().map(|one| one.key.as_str()).collect();
        let expected = [
            "network.transport",
            "network.type",
            "mptcp.id",
            "mptcp.token",
            "mptcp.remote_token",
            "network.local.address",
            "process.executable.name",
            "flow.energy.source",
            "mptcp.closed_at_ns",
            "mptcp.bytes_sent",
            "mptcp.subflow",
        ];
        assert_eq!(names, expected);
        assert_eq!(
            record.attributes[1].value.as_ref().unwrap().value,
            Some(Value::StringValue("ipv6".to_owned()))
        );
        let Some(Value::ArrayValue(subflows)) = &record.attributes[10].value.as_ref().unwrap().value else {
            panic!("no list");
        };
        assert_eq!(subflows.values.len(), 2);
    }

    #[test]
    fn what_a_server_has_rejected_is_read_from_its_answer() {
        let answer = |rejected| ExportLogsServiceResponse {
            partial_success: Some(ExportLogsPartialSuccess {
                rejected_log_records: rejected,
                error_message: "too old".to_owned(),
            }),
        };
        assert_eq!(rejected(&answer(3).encode_to_vec()), Some((3, "too old".to_owned())));
        for accepted in [&answer(0).encode_to_vec()[..], b"", b"\xff\xff"] {
            assert_eq!(rejected(accepted), None);
        }
    }
}
