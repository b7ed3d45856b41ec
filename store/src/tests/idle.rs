// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots do not list idle connections. Their rows must be the same as if snapshots listed them.

use super::*;

fn snapshot(second: i64, listed: Vec<Connection>, idle: Vec<Connection>) -> Arc<Snapshot> {
    let mut snapshot = (*tick(second, listed)).clone();
    snapshot.idle = fixture::idle(idle);
    Arc::new(snapshot)
}

/// A connection that was opened a second before the first snapshot.
fn young(token: u32) -> Connection {
    let mut flow = fixture::connection(token, 1);
    (flow.bytes_sent, flow.bytes_received, flow.age_s) = (Some(Bytes(10)), Some(Bytes(10)), 1.0);
    flow.opened_at = Some(fixture::at(11_500_000));
    flow
}

fn count(file: &std::path::Path, table: &str) -> i64 {
    let database = Database::open(file).unwrap();
    database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn an_idle_connection_has_a_row_and_samples_when_they_are_due_and_its_last_state_at_the_end() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&snapshot(0, vec![young(1)], Vec::new()));
    let mut rows = Vec::new();
    for second in 1..=140 {
        store.deliver(&snapshot(second, Vec::new(), vec![young(1)]));
        if [8, 12].contains(&second) {
            // More snapshots than the queue holds, so the snapshot above has been written.
            (0..6).for_each(|_| store.deliver(&snapshot(second, Vec::new(), vec![young(1)])));
            rows.push(store.figures().written);
        }
    }
    assert_eq!(rows, [1, 1], "one row, not one per snapshot");
    assert_eq!(store.close(), StoreLosses::default());
    assert_eq!((count(&file, "connection"), count(&file, "sample")), (1, 1));
    let (report, _) = read(&file);
    assert!((report.connections[0].age_s - 141.0).abs() < 1e-6, "{}", report.connections[0].age_s);
}

#[test]
fn a_connection_that_closes_after_it_was_idle_has_one_row() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&snapshot(0, vec![young(1)], Vec::new()));
    (1..20).for_each(|second| store.deliver(&snapshot(second, Vec::new(), vec![young(1)])));
    let mut closed = young(1);
    closed.closed_at = Some(fixture::at(32_000_000));
    closed.bytes_sent = Some(Bytes(77));
    for second in [20, 21] {
        store.deliver(&snapshot(second, vec![closed.clone()], Vec::new()));
    }
    store.deliver(&snapshot(22, Vec::new(), Vec::new()));
    assert_eq!(store.close(), StoreLosses::default());
    let (report, _) = read(&file);
    assert_eq!(report.connections.len(), 1);
    assert_eq!(report.connections[0].bytes_sent, Some(Bytes(77)));
}

/// Later snapshots replaced the snapshots that listed the connections. In the later ones they are idle or gone.
#[test]
fn connections_that_only_replaced_snapshots_list_are_written() {
    let status = Arc::new(SharedStatus::new(Status { limits: Limits::none(), ..Status::default() }));
    let (_folder, file) = folder();
    let (database, _lock) = open::for_writing(&file).unwrap();
    let mut writer = Writer::new(database, status).unwrap();
    let mut gone = young(2);
    gone.closed_at = Some(fixture::at(12_000_000));
    let first = Batch::new(&snapshot(0, vec![young(1), gone], Vec::new()));
    let (second, lost) = Batch::new(&snapshot(1, Vec::new(), vec![young(1)])).replacing(first, 10);
    let (third, more) = Batch::new(&snapshot(2, Vec::new(), vec![young(1)])).replacing(second, 10);
    assert_eq!((lost, more), (0, 0));
    writer.write(third);
    writer.write(Batch::new(&snapshot(30, Vec::new(), vec![young(1)])));
    assert_eq!(count(&file, "connection"), 2);
    writer.finish(Duration::from_secs(5));
    assert_eq!(count(&file, "connection"), 2);
}
