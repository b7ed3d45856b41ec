// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written as JSON is what the published schemas say: of each kind of connection, and nothing that they do not
//! allow. Root tests do the same with the output of the program.
#![allow(clippy::expect_used, reason = "the fixtures are known")]

use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::schema::{report_schema, snapshot_schema};
use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::Name;
use mpwatch_model::fixture;
use mpwatch_model::lifecycle::{CloseReason, FallbackReason};
use mpwatch_model::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::unit::Micros;
use serde_json::{Value, json};

fn wrong(schema: &Value, instance: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).expect("the schema is a schema");
    validator.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn valid(schema: &Value, text: &str) -> Value {
    let instance = serde_json::from_str(text).expect("it is JSON");
    assert_eq!(wrong(schema, &instance), Vec::<String>::new());
    instance
}

/// A connection whose timeline has everything that can happen.
fn eventful() -> Connection {
    let mut connection = fixture::connection(0x9f3c_0a1b, 2);
    let subflow = connection.subflows[0].id;
    let address = connection.remote;
    let events = [
        TimelineEvent::Opened,
        TimelineEvent::Adopted,
        TimelineEvent::SubflowOpened { subflow },
        TimelineEvent::SubflowEstablished { subflow },
        TimelineEvent::SubflowClosed { subflow, reason: CloseReason::RemovedByPeer },
        TimelineEvent::SubflowStale { subflow, stale: true },
        TimelineEvent::PriorityChanged { subflow, backup: false },
        TimelineEvent::AddressAnnounced { total: 1 },
        TimelineEvent::PeerAddressAnnounced { address_id: 3, address },
        TimelineEvent::PeerAddressAnnounced { address_id: 3, address: None },
        TimelineEvent::PeerAddressRemoved { address_id: 3 },
        TimelineEvent::Stalled { gap: Micros(412_300) },
        TimelineEvent::FellBack { reason: FallbackReason::AfterHandshake },
        TimelineEvent::Closed,
    ];
    let entry = |what| TimelineEntry { at: fixture::at(5), source: ObservedBy::Sampled, event: what };
    connection.timeline = events.into_iter().map(entry).collect();
    connection
}

fn nothing_known() -> Connection {
    let mut connection = fixture::fallen_back(1);
    (connection.token, connection.remote_token, connection.role) = (None, None, None);
    (connection.local, connection.remote, connection.process, connection.cgroup) = (None, None, None, None);
    (connection.bytes_sent, connection.bytes_acked, connection.bytes_received) = (None, None, None);
    connection.subflows[0].interface = Some(Name::from_kernel(*b"\xff\xfe\x1b\"\\\0\0\0\0\0\0\0\0\0\0\0"));
    connection
}

fn all() -> Vec<Connection> {
    vec![fixture::closed(2), fixture::failover(3), fixture::fallen_back(4), eventful(), nothing_known()]
}

#[test]
fn a_snapshot_is_as_its_schema_says() {
    let mut snapshot = fixture::snapshot(all());
    snapshot.host.missing.push(fixture::missing_hook());
    let text = json::snapshot(&snapshot, Layout::Line).expect("it can be written");
    assert!(!text.contains('\n'), "one line");
    let value = valid(&snapshot_schema(), &text);
    let connection = &value["connections"][3];
    assert_eq!(value["at"], "2026-03-01T12:00:12.5Z");
    assert_eq!(connection["subflows"][1]["id"], "a1b2.0");
    let stale = json!({ "at": "2026-03-01T12:00:00.000005Z", "source": "sampled", "event": "subflow_stale", "subflow": "a1b1.0", "stale": true });
    assert_eq!(connection["timeline"][5], stale);
    assert_eq!(connection["timeline"][11]["gap_us"], 412_300);
    valid(
        &snapshot_schema(),
        &json::snapshot(&fixture::snapshot(Vec::new()), Layout::Pretty).expect("it can be written"),
    );
}

#[test]
fn a_report_is_as_its_schema_says() {
    valid(
        &report_schema(),
        &json::report(&fixture::report(all()), Layout::Pretty).expect("it can be written"),
    );
}

#[test]
fn the_schema_notices_what_is_wrong() {
    let text = json::report(&fixture::report(all()), Layout::Line).expect("it can be written");
    let right: Value = serde_json::from_str(&text).expect("it is JSON");
    let breaks: [(&str, Value); 6] = [
        ("/connections/0/id", json!("nonsense")),
        ("/connections/0/subflows/0/id", json!({ "cookie": 1, "generation": 0 })),
        ("/connections/0/token", json!(17)),
        ("/connections/0/state", json!("ESTABLISHED")),
        ("/connections/3/timeline/4/reason", json!(null)),
        ("/losses/records_lost", json!(-1)),
    ];
    for (place, value) in breaks {
        let mut broken = right.clone();
        *broken.pointer_mut(place).expect("there is such a field") = value;
        assert!(!wrong(&report_schema(), &broken).is_empty(), "{place} passed");
    }
    let mut short = right.clone();
    short["connections"][0].as_object_mut().map(|fields| fields.remove("cgroup"));
    assert!(!wrong(&report_schema(), &short).is_empty(), "a missing field passed");
}
