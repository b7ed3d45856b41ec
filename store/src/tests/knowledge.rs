// SPDX-License-Identifier: MIT OR Apache-2.0
//! A known value replaces an unknown value, and a later value replaces an earlier value.

use mpwatch_model::table::Row;
use serde_json::Value;

use super::*;
use crate::feed::outbox::{Outbox, end_columns};

/// Pseudo-random numbers (xorshift64), the same in each run of the test.
struct Random(u64);

impl Random {
    fn is_one_of(&mut self, outcomes: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.is_multiple_of(outcomes)
    }
}

/// The paths of all values in an object that are null.
fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(path.to_owned()),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| nulls(value, &format!("{path}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(nth, value)| nulls(value, &format!("{path}/{nth}"), found));
        }
        _ => {}
    }
}

/// Fields that [`with_gaps`] never makes unknown. Null is a known value of some of them.
const ALWAYS_KNOWN: [&str; 6] = ["id", "token", "energy", "timeline", "outage_since", "progress_since"];

/// The paths of all values that may be unknown. Energy of several runs has rules of its own; timelines are merged entry by entry. The figures
/// of an evaluation are known or unknown together.
fn optional(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if !ALWAYS_KNOWN.contains(&name.as_str()) {
                    found.push(format!("{path}/{name}"));
                    if name != "evidence" {
                        optional(value, &format!("{path}/{name}"), found);
                    }
                }
            }
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(nth, value)| optional(value, &format!("{path}/{nth}"), found));
        }
        _ => {}
    }
}

/// The connection without some of the values that may be unknown.
fn with_gaps(connection: &Connection, random: &mut Random) -> Connection {
    let mut json = serde_json::to_value(connection).unwrap();
    let mut paths = Vec::new();
    optional(&json, "", &mut paths);
    for path in paths {
        if random.is_one_of(3) {
            let mut less = json.clone();
            let Some(value) = less.pointer_mut(&path) else { continue };
            *value = Value::Null;
            if serde_json::from_value::<Connection>(less.clone()).is_ok() {
                json = less;
            }
        }
    }
    settled(serde_json::from_value(json).unwrap())
}

/// Names of the cells of the only end that is waiting for export, whether each is known, and the version of the end.
fn exported(outbox: &mut Outbox) -> (Vec<(String, bool)>, u64) {
    let ends = outbox.next(None, 9, false).unwrap();
    outbox.confirm().unwrap();
    let [stored] = &ends[..] else { panic!("{} ends", ends.len()) };
    let columns = end_columns();
    let known = |columns: &[mpwatch_model::table::Column], row: &Row| -> Vec<(String, bool)> {
        columns.iter().zip(row).map(|(column, cell)| (column.name.clone(), cell.is_some())).collect()
    };
    let mut cells = known(&columns.connection, &stored.end.connection);
    stored.end.subflows.iter().for_each(|row| cells.extend(known(&columns.subflow, row)));
    (cells, stored.version)
}

#[test]
fn a_later_run_adds_to_what_a_row_knows_and_removes_nothing() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..20 {
        let (_folder, file) = folder();
        let whole = if round % 2 == 0 { fixture::closed(1) } else { fixture::connection(1, 2) };
        let states: Vec<Connection> = (0..3).map(|_| with_gaps(&whole, &mut random)).collect();
        let mut outbox = None;
        let (mut before, mut version) = (Vec::new(), 0);
        for (second, state) in [0, 20, 10].into_iter().zip(&states) {
            let store = Store::open(&file, &Limits::none()).unwrap();
            store.deliver(&tick(second, vec![state.clone()]));
            assert_eq!(store.close(), StoreLosses::default());
            let outbox = outbox.get_or_insert_with(|| Outbox::open(&file, "a").unwrap());
            let (cells, newer) = exported(outbox);
            for ((name, was_known), (_, is_known)) in before.iter().zip(&cells) {
                assert!(*is_known || !was_known, "round {round}: {name} is forgotten");
            }
            assert!(newer > version, "round {round}");
            (before, version) = (cells, newer);
        }
        let found = serde_json::to_value(&read(&file).0.connections[0]).unwrap();
        let mut unknown = Vec::new();
        nulls(&found, "", &mut unknown);
        for path in unknown.into_iter().filter(|path| !path.contains("/evidence/")) {
            let known = |state: &&Connection| {
                serde_json::to_value(state).unwrap().pointer(&path).is_some_and(|value| !value.is_null())
            };
            assert!(!states.iter().any(|state| known(&state)), "round {round}: {path} is unknown");
        }
    }
}

#[test]
fn a_counter_that_the_kernel_cleared_keeps_its_value() {
    let (_folder, file) = folder();
    let first = fixture::connection(1, 2);
    let mut cleared = first.clone();
    (cleared.bytes_sent, cleared.subflows[0].bytes_sent) = (None, Bytes(0));
    cleared.subflows[0].segments_retransmitted = 0;
    for (second, state) in [(0, &first), (20, &cleared)] {
        let store = Store::open(&file, &Limits::none()).unwrap();
        store.deliver(&tick(second, vec![state.clone()]));
        store.close();
    }
    let found = &read(&file).0.connections[0];
    assert_eq!(found.bytes_sent, first.bytes_sent);
    assert_eq!(found.subflows[0].bytes_sent, first.subflows[0].bytes_sent);
    assert_eq!(found.subflows[0].segments_retransmitted, first.subflows[0].segments_retransmitted);
}

#[test]
fn a_late_record_of_a_closed_connection_changes_its_row() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let closed = fixture::closed(1);
    let mut late = closed.clone();
    (late.bytes_sent, late.process, late.subflows[1].bytes_sent) = (None, None, Bytes(1 << 40));
    for (second, connections) in [(0, vec![closed.clone()]), (1, vec![]), (9, vec![late]), (10, vec![])] {
        store.deliver(&tick(second, connections));
    }
    assert_eq!(store.close(), StoreLosses::default());
    let found = &read(&file).0.connections;
    assert_eq!(found.len(), 1, "one row");
    assert_eq!((found[0].bytes_sent, found[0].process), (closed.bytes_sent, closed.process));
    assert_eq!(found[0].subflows[1].bytes_sent, Bytes(1 << 40));
    let runs = "SELECT runs FROM v_connection";
    assert_eq!(Database::open(&file).unwrap().query_row(runs, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[test]
fn an_outage_that_has_ended_is_not_kept() {
    let (_folder, file) = folder();
    let mut flow = fixture::connection(1, 2);
    for (second, outage) in [(0, Some(fixture::at(1))), (20, None)] {
        (flow.outage_since, flow.subflows[0].progress_since) = (outage, outage);
        let store = Store::open(&file, &Limits::none()).unwrap();
        store.deliver(&tick(second, vec![flow.clone()]));
        store.close();
    }
    let found = &read(&file).0.connections[0];
    assert_eq!((found.outage_since, found.subflows[0].progress_since), (None, None));
}
