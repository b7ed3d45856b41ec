// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export otlp` sends one event, or one span with a child for each subflow, for each end of a closed connection. Both ends are in
//! one trace, also when the server fails. Names follow the semantic conventions if these define one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use mpwatch_fixtures as fixture;
use mpwatch_tests::mpwatch;
use mpwatch_tests::otlp::{both_ends, database, export};
use mpwatch_tests::scripted_server::{Answer, Request, server};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message as _;
use tempfile::TempDir;

const OK: Answer = Answer::Status(200, "");

/// The events of requests, with the name of their host.
fn events(requests: &[Request]) -> Vec<(String, LogRecord)> {
    let mut events = Vec::new();
    for request in requests {
        for logs in ExportLogsServiceRequest::decode(&request.body[..]).unwrap().resource_logs {
            let Some(Value::StringValue(host)) = value(&logs.resource.unwrap().attributes, "host.name")
            else {
                panic!("no host");
            };
            let records = logs.scope_logs.into_iter().flat_map(|scope| scope.log_records);
            events.extend(records.map(|record| (host.clone(), record)));
        }
    }
    events
}

fn value(attributes: &[KeyValue], name: &str) -> Option<Value> {
    attributes.iter().find(|attribute| attribute.key == name)?.value.clone()?.value
}

#[test]
fn every_closed_connection_is_an_event_and_both_ends_are_one_trace() {
    let folder = TempDir::new().unwrap();
    let (clients, servers) = both_ends();
    let (a, b) = (database(folder.path(), "a", clients), database(folder.path(), "b", servers));
    let failures = [Answer::Status(503, "busy"), Answer::Stall, Answer::Half, Answer::Close, Answer::Page];
    let (port, requests) = server([&failures[..], &[OK; 4]].concat());
    let outcome = export(&a, port, &["--batch", "3", "--timeout", "500ms"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.stderr.contains("sent 5 connections in 2 requests") && outcome.stderr.contains("5 repeated"),
        "{outcome:?}"
    );
    assert!(export(&a, port, &[]).stderr.contains("sent 0 connections"), "all were confirmed");
    assert!(export(&b, port, &[]).stderr.contains("sent 5 connections in 1 requests"));
    let requests: Vec<Request> = requests.try_iter().collect();
    for Request { head, .. } in &requests {
        assert!(head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        assert!(head.contains("content-encoding: gzip\r\n"), "{head}");
    }
    let mut traces: BTreeMap<Vec<u8>, BTreeSet<(String, Vec<u8>)>> = BTreeMap::new();
    for (host, event) in events(&requests) {
        assert_eq!(event.event_name, "mptcp.connection.closed");
        assert!(value(&event.attributes, "mptcp.bytes_sent").is_some() && event.time_unix_nano > 0);
        assert_eq!(value(&event.attributes, "network.transport"), Some(Value::StringValue("tcp".to_owned())));
        traces.entry(event.trace_id).or_default().insert((host, event.span_id));
    }
    assert_eq!(traces.len(), 5);
    for ends in traces.values() {
        let hosts: Vec<&str> = ends.iter().map(|(host, _)| host.as_str()).collect();
        assert_eq!(hosts, ["a", "b"], "repetition has the same span");
    }
}

#[test]
fn a_rejection_by_the_server_is_reported_and_not_resent() {
    let folder = TempDir::new().unwrap();
    let db = database(folder.path(), "a", vec![fixture::closed(1), fixture::closed(2)]);
    // partial_success { rejected_log_records: 1, error_message: "too old" }
    let (port, requests) =
        server(vec![Answer::Bytes(b"\x0a\x0b\x08\x01\x12\x07too old"), Answer::Status(400, "bad")]);
    let outcome = export(&db, port, &[]);
    assert!(outcome.stderr.contains("rejected 1 connections: too old"), "{outcome:?}");
    assert!(export(&db, port, &[]).stderr.contains("sent 0 connections"));
    let outcome = export(&db, port, &["--resend"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stderr.contains("answered 400: bad") && outcome.stderr.contains("stay in the database"),
        "{outcome:?}"
    );
    assert_eq!(requests.try_iter().count(), 2);
    for url in ["ftp://collector:4318", "collector:4318"] {
        let outcome = mpwatch(&["export", "otlp", "--url", url]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
    }
}

/// The spans of requests, with the attributes of their resource.
fn spans(requests: &[Request]) -> Vec<(Vec<KeyValue>, Span)> {
    let requests =
        requests.iter().map(|request| ExportTraceServiceRequest::decode(&request.body[..]).unwrap());
    let resources = requests.flat_map(|request| request.resource_spans);
    let of_resource = |resource: ResourceSpans| {
        let attributes = resource.resource.unwrap().attributes;
        let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.map(|span| (attributes.clone(), span)).collect::<Vec<_>>()
    };
    resources.flat_map(of_resource).collect()
}

#[test]
fn connections_and_subflows_are_spans_with_their_timelines() {
    let folder = TempDir::new().unwrap();
    let (clients, servers) = both_ends();
    let (a, b) = (database(folder.path(), "a", clients), database(folder.path(), "b", servers));
    let (port, requests) = server([&[Answer::Status(503, "busy")][..], &[OK; 3]].concat());
    assert!(export(&a, port, &["--spans"]).stderr.contains("sent 5 connections in 1 requests"));
    assert!(export(&b, port, &["--spans"]).stderr.contains("sent 5 connections in 1 requests"));
    assert!(export(&a, port, &[]).stderr.contains("sent 5 connections"), "events have a cursor of their own");
    let mut requests: Vec<Request> = requests.try_iter().collect();
    assert!(requests.pop().unwrap().head.starts_with("POST /v1/logs HTTP/1.1\r\n"));
    assert!(requests.iter().all(|request| request.head.starts_with("POST /v1/traces HTTP/1.1\r\n")));
    let spans = spans(&requests[1..]);
    assert_eq!(spans.len(), 2 * 5 * 3);
    let mut traces: BTreeMap<&[u8], Vec<(&[KeyValue], &Span)>> = BTreeMap::new();
    for (resource, span) in &spans {
        traces.entry(&span.trace_id).or_default().push((resource, span));
    }
    assert_eq!(traces.len(), 5, "both ends are in one trace");
    for spans in traces.values() {
        let connections = spans.iter().filter(|(_, span)| span.name == "mptcp.connection");
        let kinds: BTreeSet<SpanKind> = connections.clone().map(|(_, span)| span.kind()).collect();
        assert_eq!(kinds, BTreeSet::from([SpanKind::Client, SpanKind::Server]));
        for (resource, connection) in connections {
            let events: Vec<&str> = connection.events.iter().map(|event| event.name.as_str()).collect();
            assert_eq!(events, ["mptcp.opened", "mptcp.closed"]);
            assert!(connection.end_time_unix_nano > connection.start_time_unix_nano);
            for name in ["host.name", "process.pid", "k8s.pod.uid"] {
                assert!(value(resource, name).is_some(), "{name}");
            }
            let children = spans.iter().filter(|(_, span)| span.parent_span_id == connection.span_id);
            let children: Vec<&Span> = children.map(|(_, span)| *span).collect();
            assert_eq!(children.len(), 2);
            for subflow in children {
                let names: Vec<&str> = subflow.events.iter().map(|event| event.name.as_str()).collect();
                let steps = ["subflow_opened", "subflow_established", "subflow_closed"];
                assert_eq!(names, steps.map(|step| format!("mptcp.{step}")));
                assert!(value(&subflow.attributes, "network.interface.name").is_some());
            }
        }
    }
}

/// Prefixes of names that the conventions do not define.
const OWN: [&str; 3] = ["mptcp.", "flow.energy.", "mpwatch."];

#[test]
fn names_follow_the_semantic_conventions() {
    let folder = TempDir::new().unwrap();
    let db = database(folder.path(), "a", both_ends().0);
    let (port, requests) = server(vec![OK, OK]);
    for more in [&[][..], &["--spans"]] {
        assert_eq!(export(&db, port, more).code, Some(0));
    }
    let requests: Vec<Request> = requests.try_iter().collect();
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut note =
        |attributes: &[KeyValue]| names.extend(attributes.iter().map(|attribute| attribute.key.clone()));
    for logs in ExportLogsServiceRequest::decode(&requests[0].body[..]).unwrap().resource_logs {
        note(&logs.resource.unwrap().attributes);
        logs.scope_logs
            .iter()
            .flat_map(|scope| &scope.log_records)
            .for_each(|record| note(&record.attributes));
    }
    for (resource, span) in spans(&requests[1..]) {
        note(&resource);
        note(&span.attributes);
        span.events.iter().for_each(|event| note(&event.attributes));
    }
    let registry = include_str!("../../fixtures/otel-attribute-names.txt");
    let known: BTreeSet<&str> = registry.lines().filter(|line| !line.starts_with('#')).collect();
    let (own, conventional): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| OWN.iter().any(|prefix| name.starts_with(prefix)));
    for name in &conventional {
        assert!(known.contains(name.as_str()), "{name} is not in the registry");
    }
    assert!(own.len() > 50 && conventional.len() >= 17, "{own:?} {conventional:?}");
    let first = |prefix: &str| prefix.trim_end_matches('.').split('.').next().unwrap().to_owned();
    let namespaces: BTreeSet<&str> = known.iter().filter_map(|name| name.split('.').next()).collect();
    assert!(
        OWN.iter().all(|prefix| !namespaces.contains(first(prefix).as_str())),
        "our prefixes are not in a namespace of the conventions"
    );
}
