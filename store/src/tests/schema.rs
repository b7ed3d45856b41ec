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
    for view in ["v_peer_daily", "v_event", "v_bottleneck", "v_connection", "v_subflow"] {
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
