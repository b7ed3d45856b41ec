// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export otlp`: one event for each closed connection and end, both ends in one trace, also when the server fails.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mpwatch_fixtures as fixture;
use mpwatch_model::connection::Connection;
use mpwatch_model::lifecycle::Role;
use mpwatch_store::{Limits, Store};
use mpwatch_tests::scripted_server::{Answer, Request, server};
use mpwatch_tests::{CommandOutput, mpwatch};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message as _;
use tempfile::TempDir;

const OK: Answer = Answer::Status(200, "");

fn database(folder: &Path, host: &str, connections: Vec<Connection>) -> PathBuf {
    let path = folder.join(format!("{host}.db"));
    let store = Store::open(&path, &Limits::none()).unwrap();
    let mut snapshot = fixture::snapshot(connections);
    (snapshot.host.name, snapshot.host.boot_id) = (host.to_owned(), format!("boot of {host}"));
    store.deliver(&Arc::new(snapshot));
    store.close();
    path
}

fn export(db: &Path, port: u16, more: &[&str]) -> CommandOutput {
    let url = format!("http://127.0.0.1:{port}");
    mpwatch(&[&["export", "otlp", "--db", db.to_str().unwrap(), "--url", &url], more].concat())
}

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
    attributes.iter().find(|one| one.key == name)?.value.clone()?.value
}

#[test]
fn every_closed_connection_is_an_event_and_both_ends_are_one_trace() {
    let folder = TempDir::new().unwrap();
    let mut clients: Vec<Connection> = (1..=5).map(fixture::closed).collect();
    let servers: Vec<Connection> = clients
        .iter()
        .map(|client| {
            let mut server = client.clone();
            (server.token, server.remote_token) = (client.remote_token, client.token);
            (server.role, server.id.token) = (Some(Role::Server), client.remote_token.unwrap());
            server
        })
        .collect();
    let mut open = fixture::connection(6, 2);
    open.age_s = 60.0;
    clients.push(open);
    let (a, b) = (database(folder.path(), "a", clients), database(folder.path(), "b", servers));
    let failures = [Answer::Status(503, "busy"), Answer::Stall, Answer::Half, Answer::Close];
    let (port, requests) = server([&failures[..], &[OK; 4]].concat());
    let outcome = export(&a, port, &["--batch", "3", "--timeout", "500ms"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.stderr.contains("sent 5 connections in 2 requests") && outcome.stderr.contains("4 repeated"),
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
fn what_the_server_rejects_is_reported_and_not_resent() {
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
        outcome.stderr.contains("answered 400: bad") && outcome.stderr.contains("stays in the database"),
        "{outcome:?}"
    );
    assert_eq!(requests.try_iter().count(), 2);
    for url in ["ftp://collector:4318", "collector:4318"] {
        let outcome = mpwatch(&["export", "otlp", "--url", url]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
    }
}
