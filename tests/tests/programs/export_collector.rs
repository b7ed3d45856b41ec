// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real OpenTelemetry Collector (`tests/otelcol`) receives the data of `mpwatch export otlp` and writes it to a file. The file has each
//! closed connection once for each end, as event and as spans, and both ends are in one trace.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_tests::otlp::{both_ends, database, export};
use mpwatch_tests::skip;
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/otelcol");
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/otelcol");

/// Builds the collector, and returns whether that succeeded. The first build takes minutes, because it downloads and compiles modules.
fn build() -> bool {
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-ldflags=-s", "-o", PROGRAM, "."]).current_dir(SOURCE);
    match go.output() {
        Err(_) => skip("go is missing: Go 1.23 or later builds the OpenTelemetry Collector"),
        Ok(output) if !output.status.success() => {
            skip(&format!("go build of tests/otelcol failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(_) => return true,
    }
    false
}

struct Collector(Child);

impl Collector {
    fn start(folder: &Path, port: u16) -> Self {
        let config = format!(
            "receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}
exporters: {{file: {{path: '{}', flush_interval: 20ms}}}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}
  pipelines:
    logs: {{receivers: [otlp], exporters: [file]}}
    traces: {{receivers: [otlp], exporters: [file]}}
",
            folder.join("received").display()
        );
        let path = folder.join("config.yaml");
        fs::write(&path, config).unwrap();
        let mut collector = Command::new(PROGRAM);
        let collector = collector.arg(format!("--config=file:{}", path.display())).stdout(Stdio::null());
        Self(collector.spawn().unwrap())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of the collector: host, trace, span and name of each event or span.
fn received(folder: &Path) -> Vec<[String; 4]> {
    let file = fs::read_to_string(folder.join("received")).unwrap_or_default();
    // The last line may be incomplete.
    let lines = file.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.flat_map(|line| of_line(&line)).collect()
}

fn of_line(line: &Value) -> Vec<[String; 4]> {
    let mut found = Vec::new();
    for [resources, scopes, items, name] in [
        ["resourceLogs", "scopeLogs", "logRecords", "eventName"],
        ["resourceSpans", "scopeSpans", "spans", "name"],
    ] {
        for resource in each(&line[resources]) {
            let attributes = each(&resource["resource"]["attributes"]);
            let host = attributes.iter().find(|attribute| attribute["key"] == "host.name").expect("a host");
            for item in each(&resource[scopes]).iter().flat_map(|scope| each(&scope[items])) {
                let fields = [&host["value"]["stringValue"], &item["traceId"], &item["spanId"], &item[name]];
                found.push(fields.map(|field| field.as_str().expect("a text").to_owned()));
            }
        }
    }
    found
}

fn each(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn a_collector_has_every_connection_once_per_end_and_both_ends_in_one_trace() {
    if !build() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (clients, servers) = both_ends();
    let hosts = [database(folder.path(), "a", clients), database(folder.path(), "b", servers)];
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _collector = Collector::start(folder.path(), port);
    // The first export waits for the collector.
    for (db, more) in hosts.iter().flat_map(|db| [(db, &[][..]), (db, &["--spans"])]) {
        let outcome = export(db, port, more);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.stderr.contains("sent 5 connections"), "{outcome:?}");
    }
    // Two hosts with five connections: an event, a span, and a span for each of two subflows.
    let expected = 2 * 5 * 4;
    let complete = || Some(received(folder.path())).filter(|received| received.len() >= expected);
    let received = poll_until("all events and spans", Duration::from_secs(20), complete).unwrap();
    assert_eq!(received.len(), expected, "nothing was received twice: {received:?}");
    let mut traces: BTreeMap<&str, BTreeMap<&str, Vec<[&str; 2]>>> = BTreeMap::new();
    for [host, trace, span, name] in &received {
        traces.entry(trace).or_default().entry(host).or_default().push([name, span]);
    }
    assert_eq!(traces.len(), 5, "both ends of a connection are in one trace");
    for ends in traces.values_mut() {
        assert_eq!(ends.keys().collect::<Vec<_>>(), [&"a", &"b"]);
        for items in ends.values_mut() {
            items.sort_unstable();
            let names: Vec<&str> = items.iter().map(|[name, _]| *name).collect();
            let [span, event] = ["mptcp.connection", "mptcp.connection.closed"];
            assert_eq!(names, [span, event, "mptcp.subflow", "mptcp.subflow"]);
            assert_eq!(items[0][1], items[1][1], "the event belongs to the span of its connection");
        }
    }
}
