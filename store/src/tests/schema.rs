// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that lacks columns gets them, and can be read before.

use super::*;

fn has_column(file: &std::path::Path, table: &str, column: &str) -> bool {
    let database = Connection::open(file).unwrap();
    let query = format!("SELECT count(*) FROM pragma_table_info('{table}') WHERE name = '{column}'");
    database.query_row(&query, [], |row| row.get::<_, i64>(0)).unwrap() == 1
}

#[test]
fn columns_that_a_file_lacks_are_added_by_the_first_writer() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![consistent(fixture::closed(1))]));
    store.close();
    let before = read(&file).0;
    // As a file of an mpwatch that knew fewer columns.
    let older = Connection::open(&file).unwrap();
    for view in
        ["v_flow_class", "v_run", "v_peer_daily", "v_event", "v_bottleneck", "v_connection", "v_subflow"]
    {
        older.execute_batch(&format!("DROP VIEW {view}")).unwrap();
    }
    older
        .execute_batch(
            "ALTER TABLE connection DROP COLUMN excess_ratio; ALTER TABLE subflow DROP COLUMN timeouts;
             ALTER TABLE subflow DROP COLUMN rtt_samples; CREATE VIEW v_subflow AS SELECT place FROM subflow;",
        )
        .unwrap();
    drop(older);
    let found = read(&file).0;
    assert_eq!(found.connections[0].excess_ratio(), before.connections[0].excess_ratio(), "computed");
    let subflow = &found.connections[0].subflows[0];
    assert_eq!((subflow.timeouts, subflow.rtt_samples), (None, 0));
    assert!(!has_column(&file, "connection", "excess_ratio"), "reading changes nothing");
    Store::open(&file, &Limits::none()).unwrap().close();
    for (table, column) in
        [("connection", "excess_ratio"), ("subflow", "timeouts"), ("v_subflow", "timeouts")]
    {
        assert!(has_column(&file, table, column), "{table} {column}");
    }
    assert_eq!(read(&file).0.connections.len(), 1);
}

#[test]
fn an_unknown_rate_is_null_also_in_a_file_that_did_not_allow_it() {
    let (_folder, file) = folder();
    let unknown = |token| {
        let mut connection = consistent(fixture::connection(token, 2));
        (connection.send, connection.receive) = (None, None);
        connection.subflows.iter_mut().for_each(|one| (one.send, one.receive) = (None, None));
        connection
    };
    let write = |connection| {
        let store = Store::open(&file, &Limits::none()).unwrap();
        store.deliver(&tick(0, vec![connection]));
        store.close();
    };
    write(consistent(fixture::closed(1)));
    let known = read(&file).0.connections.remove(0);
    // As an earlier mpwatch declared it.
    let older = Connection::open(&file).unwrap();
    let declaration = |table: &str| -> String {
        let query = "SELECT sql FROM sqlite_schema WHERE name = ?";
        older.query_row(query, [table], |row| row.get(0)).unwrap()
    };
    let strict = |table: &str| declaration(table).replace("_bps INTEGER,", "_bps INTEGER NOT NULL,");
    let tables = ["connection", "subflow"].map(|table| (table, strict(table)));
    let views: Vec<String> = {
        let mut query = older.prepare("SELECT name FROM sqlite_schema WHERE type = 'view'").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for view in views {
        older.execute_batch(&format!("DROP VIEW {view}")).unwrap();
    }
    for (table, sql) in &tables {
        assert!(sql.contains("send_bps INTEGER NOT NULL"), "{sql}");
        let copy = format!(
            "ALTER TABLE {table} RENAME TO old; {sql}; INSERT INTO {table} SELECT * FROM old; DROP TABLE old"
        );
        older.execute_batch(&copy).unwrap();
    }
    drop(older);
    write(unknown(2));
    let found = read(&file).0.connections;
    assert_eq!(found.iter().find(|one| one.id == known.id), Some(&known), "nothing else has changed");
    let new = found.iter().find(|one| one.id != known.id).unwrap();
    assert_eq!((new.send, new.receive, new.subflows[1].send), (None, None, None));
    let database = Connection::open(&file).unwrap();
    let count = |query: &str| database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM v_connection WHERE send_bps IS NULL"), 1);
    assert_eq!(count("SELECT count(*) FROM v_subflow WHERE receive_bps IS NULL"), 2);
    assert_eq!(count("SELECT count(*) FROM sqlite_schema WHERE name = 'connection_open'"), 1);
}
