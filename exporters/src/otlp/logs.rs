// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log event for each closed connection.

use mpwatch_model::flow::end::{End, EndColumns};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use prost::Message as _;
use serde_json::Value as Json;

use super::resource::ByResource;
use super::{attributes, ids};

const EVENT: &str = "mptcp.connection.closed";

/// The body of a request to `/v1/logs`, not compressed. `ends`: each with the time at which it was read, nanoseconds since 1970. Open
/// connections are omitted. `mpwatch`: the version of this program.
pub fn logs<'a>(
    ends: impl IntoIterator<Item = (&'a End, u64)>,
    columns: &EndColumns,
    mpwatch: &str,
) -> Vec<u8> {
    let mut found = ByResource::new(mpwatch);
    for (end, read_ns) in ends {
        found.add(end, columns, event(end, columns, read_ns));
    }
    let logs_of = |(resource, scope, log_records)| {
        let logs = ScopeLogs { scope: Some(scope), log_records, ..ScopeLogs::default() };
        ResourceLogs { resource: Some(resource), scope_logs: vec![logs], ..ResourceLogs::default() }
    };
    ExportLogsServiceRequest { resource_logs: found.into_parts().map(logs_of).collect() }.encode_to_vec()
}

/// The number of records that a server rejected, and the reason. `kind`: the content type of the answer. `None`: not an answer of OTLP.
/// Answers about spans have the same fields.
pub fn rejected(kind: &str, answer: &[u8]) -> Option<(u64, String)> {
    let partial = match kind.split(';').next()?.trim() {
        "application/x-protobuf" => ExportLogsServiceResponse::decode(answer).ok()?.partial_success,
        "application/json" => {
            serde_json::from_slice::<Json>(answer).ok()?.as_object()?.get("partialSuccess").map(from_json)
        }
        _ => return None,
    };
    let partial = partial.unwrap_or_default();
    Some((u64::try_from(partial.rejected_log_records).unwrap_or_default(), partial.error_message))
}

/// OTLP writes 64-bit numbers as text in JSON.
fn from_json(partial: &Json) -> ExportLogsPartialSuccess {
    let number = |name: &str| partial[name].as_i64().or_else(|| partial[name].as_str()?.parse().ok());
    ExportLogsPartialSuccess {
        rejected_log_records: number("rejectedLogRecords").or_else(|| number("rejectedSpans")).unwrap_or(0),
        error_message: partial["errorMessage"].as_str().unwrap_or_default().to_owned(),
    }
}

/// The event of a connection. `None`: it is open.
fn event(end: &End, columns: &EndColumns, read_ns: u64) -> Option<LogRecord> {
    let mut attributes = attributes::of_connection(end, columns);
    attributes.push(attributes::subflow_list(end, columns));
    Some(LogRecord {
        time_unix_nano: end.closed_ns(columns)?,
        observed_time_unix_nano: read_ns,
        severity_number: SeverityNumber::Info.into(),
        severity_text: "INFO".to_owned(),
        attributes,
        trace_id: ids::trace(end, columns),
        span_id: ids::connection_span(end, columns),
        event_name: EVENT.to_owned(),
        ..LogRecord::default()
    })
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    use opentelemetry_proto::tonic::common::v1::KeyValue;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::super::fixture::{columns, end};
    use super::*;

    fn events(ends: &[End]) -> Vec<ResourceLogs> {
        let body = logs(ends.iter().map(|end| (end, 99)), &columns(), "1.2.3");
        ExportLogsServiceRequest::decode(&body[..]).unwrap().resource_logs
    }

    fn names(attributes: &[KeyValue]) -> Vec<&str> {
        attributes.iter().map(|attribute| attribute.key.as_str()).collect()
    }

    #[test]
    fn both_ends_share_a_trace_and_each_has_its_span() {
        let ends = [end("a", ["1", "2"], Some(5)), end("b", ["2", "1"], Some(6)), end("b", ["3", "4"], None)];
        let logs = events(&ends);
        assert_eq!(logs.len(), 2, "a resource for each host");
        let [one, other] = [&logs[0], &logs[1]].map(|logs| &logs.scope_logs[0].log_records[0]);
        assert_eq!((one.trace_id.len(), one.span_id.len()), (16, 8));
        assert_eq!(one.trace_id, other.trace_id);
        assert_eq!(logs[1].scope_logs[0].log_records.len(), 1, "an open connection is not an event");
        assert_eq!((one.time_unix_nano, one.observed_time_unix_nano), (5, 99));
        let unknown = events(&[end("a", ["x", "2"], Some(5)), end("a", ["2", "x"], Some(5))]);
        let traces: Vec<_> =
            unknown[0].scope_logs[0].log_records.iter().map(|record| &record.trace_id).collect();
        assert!(traces.iter().all(|trace| trace.len() == 16), "a trace id without a pair");
    }

    #[test]
    fn attributes_have_conventional_names_and_unknown_values_are_absent() {
        let logs = events(&[end("a", ["1", "2"], Some(5))]);
        let record = &logs[0].scope_logs[0].log_records[0];
        let expected = [
            "network.transport",
            "network.type",
            "mptcp.id",
            "mptcp.token",
            "mptcp.remote_token",
            "mptcp.role",
            "network.local.address",
            "flow.energy.source",
            "mptcp.began_ns",
            "mptcp.closed_at_ns",
            "mptcp.bytes_sent",
            "mptcp.subflow",
        ];
        assert_eq!(names(&record.attributes), expected);
        let resource = &logs[0].resource.as_ref().unwrap().attributes;
        let expected = [
            "service.name",
            "service.version",
            "os.type",
            "host.name",
            "mpwatch.boot_id",
            "process.executable.name",
        ];
        assert_eq!(names(resource), expected);
        let kind = record.attributes[1].value.as_ref().unwrap().value.as_ref();
        assert_eq!(kind, Some(&Value::StringValue("ipv6".to_owned())));
        let Some(Value::ArrayValue(subflows)) = &record.attributes[11].value.as_ref().unwrap().value else {
            panic!("no list");
        };
        assert_eq!(subflows.values.len(), 2);
    }

    #[test]
    fn rejected_records_are_read_from_an_answer() {
        const PROTOBUF: &str = "application/x-protobuf";
        let partial = |rejected_log_records| {
            let partial =
                ExportLogsPartialSuccess { rejected_log_records, error_message: "too old".to_owned() };
            ExportLogsServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        };
        let spans = ExportTracePartialSuccess { rejected_spans: 3, error_message: "too old".to_owned() };
        let spans = ExportTraceServiceResponse { partial_success: Some(spans) }.encode_to_vec();
        let json = br#"{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}"#;
        for (kind, answer) in
            [(PROTOBUF, partial(3)), (PROTOBUF, spans), ("application/json;a=b", json.to_vec())]
        {
            assert_eq!(rejected(kind, &answer), Some((3, "too old".to_owned())), "{kind}");
        }
        for (kind, accepted) in [(PROTOBUF, &partial(0)[..]), (PROTOBUF, b""), ("application/json", b"{}")] {
            assert_eq!(rejected(kind, accepted).unwrap().0, 0, "{kind}");
        }
        let page = &b"<html>Sorry</html>"[..];
        for (kind, other) in [("text/html", page), (PROTOBUF, page), ("application/json", page), ("", page)] {
            assert_eq!(rejected(kind, other), None, "{kind}");
        }
    }
}
