// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that was created before a column was added gets the column, and can be read without it.

use super::*;

fn has_column(file: &std::path::Path, table: &str, column: &str) -> bool {
    let database = Database::open(file).unwrap();
    let query = format!("SELECT count(*) FROM pragma_table_info('{table}') WHERE name = '{column}'");
    database.query_row(&query, [], |row| row.get::<_, i64>(0)).unwrap() == 1
}

#[test]
fn the_first_writer_adds_columns_that_a_file_lacks() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    store.close();
    let before = read(&file).0;
    let database = Database::open(&file).unwrap();
    for view in
        ["v_flow_class", "v_run", "v_peer_daily", "v_event", "v_bottleneck", "v_connection", "v_subflow"]
    {
        database.execute_batch(&format!("DROP VIEW {view}")).unwrap();
    }
    database
        .execute_batch(
            "ALTER TABLE connection DROP COLUMN excess_ratio; ALTER TABLE subflow DROP COLUMN timeouts;
             CREATE VIEW v_subflow AS SELECT place FROM subflow;",
        )
        .unwrap();
    drop(database);
    let found = read(&file).0;
    assert_eq!(found.connections[0].excess_ratio(), before.connections[0].excess_ratio(), "computed");
    assert_eq!(found.connections[0].subflows[0].timeouts, None);
    assert!(!has_column(&file, "connection", "excess_ratio"), "reading changes nothing");
    Store::open(&file, &Limits::none()).unwrap().close();
    for (table, column) in
        [("connection", "excess_ratio"), ("subflow", "timeouts"), ("v_subflow", "timeouts")]
    {
        assert!(has_column(&file, table, column), "{table} {column}");
    }
    assert_eq!(read(&file).0.connections.len(), 1);
}
