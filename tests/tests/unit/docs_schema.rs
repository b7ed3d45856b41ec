// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON output of every kind of connection conforms to the published schemas. Root tests check the output of the program.
#![allow(clippy::expect_used, reason = "the fixtures are known")]

use mpwatch_bench::schema::{report_schema, snapshot_schema};
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::EliminationStep;
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason};
use mpwatch_model::unit::Micros;
use mpwatch_report::json::{self, Layout};
use serde_json::{Value, json};

fn schema_errors(schema: &Value, instance: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).expect("the schema is valid");
    validator.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Asserts that a text conforms to a schema.
fn parse_valid(schema: &Value, text: &str) -> Value {
    let instance = serde_json::from_str(text).expect("valid JSON");
    assert_eq!(schema_errors(schema, &instance), Vec::<String>::new());
    instance
}

/// A connection with every kind of timeline entry.
fn with_all_events() -> Connection {
    let mut connection = fixture::connection(0x9f3c_0a1b, 2);
    let subflow = connection.subflows[0].id;
    let address = connection.remote;
    let removal = fixture::elimination::removal(&connection).expect("the connection has subflows");
    let events = [
        TimelineEvent::Opened,
        TimelineEvent::Adopted,
        TimelineEvent::SubflowOpened { subflow },
        TimelineEvent::SubflowEstablished { subflow },
        TimelineEvent::SubflowClosed { subflow, reason: CloseReason::RemovedByPeer },
        TimelineEvent::SubflowStale { subflow, stale: true, silent: None },
        TimelineEvent::PriorityChanged { subflow, backup: false },
        TimelineEvent::AddressAnnounced { total: 1 },
        TimelineEvent::PeerAddressAnnounced { address_id: 3, address },
        TimelineEvent::PeerAddressAnnounced { address_id: 3, address: None },
        TimelineEvent::PeerAddressRemoved { address_id: 3 },
        TimelineEvent::Stalled { gap: Micros(412_300), timeout: None },
        TimelineEvent::Elimination(EliminationStep::Removed(Box::new(removal.clone()))),
        TimelineEvent::Elimination(EliminationStep::Failed {
            removal: Box::new(removal.clone()),
            error: "its socket is gone".to_owned(),
        }),
        TimelineEvent::Elimination(EliminationStep::LeftAlone(fixture::elimination::dropped())),
        TimelineEvent::Elimination(EliminationStep::Undone { subflow }),
        TimelineEvent::FellBack { reason: FallbackReason::AfterHandshake },
        TimelineEvent::Closed,
    ];
    let entry = |what| TimelineEntry { at: fixture::at(5), source: ObservedBy::Sampled, event: what };
    connection.timeline = events.into_iter().map(entry).collect();
    connection
}

/// A connection with all optional fields unknown.
fn with_unknown_fields() -> Connection {
    let mut connection = fixture::fallen_back(1);
    (connection.token, connection.remote_token, connection.role) = (None, None, None);
    (connection.local, connection.remote, connection.process, connection.cgroup) = (None, None, None, None);
    connection.pod = None;
    (connection.bytes_sent, connection.bytes_acked, connection.bytes_received) = (None, None, None);
    connection.subflows[0].interface = Some(Name::from_kernel(*b"\xff\xfe\x1b\"\\\0\0\0\0\0\0\0\0\0\0\0"));
    connection
}

fn all_kinds() -> Vec<Connection> {
    vec![
        fixture::closed(2),
        fixture::failover(3),
        fixture::fallen_back(4),
        with_all_events(),
        with_unknown_fields(),
    ]
}

#[test]
fn a_snapshot_is_valid_by_its_schema() {
    let mut snapshot = fixture::snapshot(all_kinds());
    snapshot.host.missing.push(fixture::missing_hook());
    let text = json::text(&snapshot, Layout::Line).expect("a snapshot can be written");
    assert!(!text.contains('\n'), "one line");
    let value = parse_valid(&snapshot_schema(), &text);
    let connection = &value["connections"][3];
    assert_eq!(value["at"], "2026-03-01T12:00:12.5Z");
    assert_eq!(connection["subflows"][1]["id"], "a1b2.0");
    let stale = json!({ "at": "2026-03-01T12:00:00.000005Z", "source": "sampled", "event": "subflow_stale", "subflow": "a1b1.0", "stale": true, "silent_us": null });
    assert_eq!(connection["timeline"][5], stale);
    assert_eq!(connection["timeline"][11]["gap_us"], 412_300);
    parse_valid(
        &snapshot_schema(),
        &json::text(&fixture::snapshot(Vec::new()), Layout::Pretty).expect("a snapshot can be written"),
    );
}

#[test]
fn a_report_is_valid_by_its_schema() {
    parse_valid(
        &report_schema(),
        &json::text(&fixture::report(all_kinds()), Layout::Pretty).expect("a report can be written"),
    );
}

#[test]
fn the_schema_rejects_invalid_values() {
    let text = json::text(&fixture::report(all_kinds()), Layout::Line).expect("a report can be written");
    let valid: Value = serde_json::from_str(&text).expect("valid JSON");
    let invalid_values: [(&str, Value); 6] = [
        ("/connections/0/id", json!("nonsense")),
        ("/connections/0/subflows/0/id", json!({ "cookie": 1, "generation": 0 })),
        ("/connections/0/token", json!(17)),
        ("/connections/0/state", json!("ESTABLISHED")),
        ("/connections/3/timeline/4/reason", json!(null)),
        ("/losses/records_lost", json!(-1)),
    ];
    for (pointer, value) in invalid_values {
        let mut broken = valid.clone();
        *broken.pointer_mut(pointer).expect("the field exists") = value;
        assert!(!schema_errors(&report_schema(), &broken).is_empty(), "{pointer} was accepted");
    }
    let mut incomplete = valid.clone();
    incomplete["connections"][0].as_object_mut().map(|fields| fields.remove("cgroup"));
    assert!(!schema_errors(&report_schema(), &incomplete).is_empty(), "a missing field was accepted");
}
