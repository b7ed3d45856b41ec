// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of ClickHouse, as SQL. Applying the statements again only adds a row to `schema_version`.
//!
//! For each pair, `pair_states` has the newest record of the client and of the server, each as a tuple that begins with the version, so that
//! `max` selects the newest record. Unlike `argMax`, this keeps unknown values. Rows may arrive in any order and repeatedly.

use std::fmt::Write as _;

use mpwatch_model::flow::end::EndColumns;
use mpwatch_model::table::{Column, ColumnType};

use super::place::{engine, local, quoted, shared_engine};
use super::{rows, sites};

pub use super::place::Place;

/// Version of the tables. From the first release on, increase it when the tables change.
pub const VERSION: u32 = 1;

/// Columns that always have a value, so they are not nullable.
const KNOWN: [&str; 3] = ["boot_id", "id", "began_ns"];
/// Columns that `pairs` repeats as `sender_NAME`, from the end that sent more payload.
const SENDER: [&str; 2] = ["extra_subflows", "jain_index"];
/// Columns of text whose values rarely repeat, so `LowCardinality` would not save space.
const UNIQUE: [&str; 5] = ["id", "token", "remote_token", "a", "b"];

/// The statements that create the tables, each after a comment.
pub fn ddl(columns: &EndColumns, place: Place<'_>, mpwatch: &str) -> String {
    let (database, on) = place.names();
    let mut text = format!(
        "-- ClickHouse tables of mpwatch {mpwatch}, schema {VERSION}. Without --keep, the server deletes no rows.\n\
         CREATE DATABASE IF NOT EXISTS {database}{on};\n\n"
    );
    let tables = [
        ends(columns, place, &database, &on),
        states(columns, place, &database, &on),
        feed(columns, place, &database, &on),
        sites::tables(place, &database, &on),
        pairs(columns, place, &on),
        sites::hours(place, &database, &on),
        version(place, &database, &on, mpwatch),
    ];
    text.push_str(&tables.join("\n"));
    text
}

/// The statements that let the server delete a connection `seconds` after it began. The hourly sums are kept.
pub fn retention(place: Place<'_>, seconds: u64) -> String {
    let (database, on) = place.names();
    let statement = |table| {
        format!(
            "ALTER TABLE {database}.{}{on} MODIFY TTL toDateTime(intDiv(began_ns, 1000000000)) + INTERVAL {seconds} SECOND;\n",
            local(table, place)
        )
    };
    format!("\n-- The server deletes old rows.\n{}{}", statement("ends"), statement("pair_states"))
}

/// In a cluster, the statement for the table that sends both ends of a connection to the same shard. Empty: a single server.
fn distributed(table: &str, place: Place<'_>, database: &str, on: &str, shard_by: &str) -> String {
    place.cluster.map_or_else(String::new, |cluster| {
        let local = local(table, place);
        format!(
            "CREATE TABLE IF NOT EXISTS {database}.{table}{on} AS {database}.{local}\n\
             ENGINE = Distributed({}, {database}, {local}, {shard_by});\n",
            quoted(cluster)
        )
    })
}

/// The tables that store rows, with names and types of their columns.
pub(super) fn table_columns(columns: &EndColumns, place: Place<'_>) -> Vec<(String, Vec<(String, String)>)> {
    let own = [
        (local("ends", place), ends_columns(columns)),
        (local("pair_states", place), state_columns(columns)),
    ];
    own.into_iter().chain(sites::table_columns()).collect()
}

/// The columns of `pair_states`. The greatest tuple is the newest record of an end. The TTL reads `began_ns`.
fn state_columns(columns: &EndColumns) -> Vec<(String, String)> {
    let tuple = tuple(columns);
    let states = [
        ("pair", "UInt64".to_owned()),
        ("ends", "SimpleAggregateFunction(groupBitOr, UInt8)".to_owned()),
        ("client", format!("SimpleAggregateFunction(max, {tuple})")),
        ("server", format!("SimpleAggregateFunction(max, {tuple})")),
        ("began_ns", "SimpleAggregateFunction(max, Int64)".to_owned()),
    ];
    states.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect()
}

fn ends_columns(columns: &EndColumns) -> Vec<(String, String)> {
    let mut all =
        vec![("pair".to_owned(), "Nullable(UInt64)".to_owned()), ("version".to_owned(), "UInt64".to_owned())];
    all.extend(columns.connection.iter().map(|column| (column.name.clone(), stored(column))));
    for (name, nested) in [("subflow", &columns.subflow), ("bottleneck", &columns.bottleneck)] {
        let of = |column: &Column| {
            (format!("{name}.{}", column.name), format!("Array({})", nullable(column, true)))
        };
        all.extend(nested.iter().map(of));
    }
    all
}

fn ends(columns: &EndColumns, place: Place<'_>, database: &str, on: &str) -> String {
    let line = |(name, kind): (String, String)| format!("    {} {kind} CODEC(ZSTD(1))", quoted(&name));
    let lines: Vec<String> = ends_columns(columns).into_iter().map(line).collect();
    format!(
        "-- One row for each end of a connection. Query it with FROM ends FINAL, because a row may arrive several times.\n\
         CREATE TABLE IF NOT EXISTS {database}.{}{on} (\n{}\n) ENGINE = {}\n\
         PARTITION BY toDate(fromUnixTimestamp64Nano(began_ns, 'UTC'))\n\
         ORDER BY (pair, boot_id, id) SETTINGS allow_nullable_key = 1;\n{}",
        local("ends", place),
        lines.join(",\n"),
        engine("ReplacingMergeTree", "version", place),
        distributed("ends", place, database, on, "ifNull(pair, cityHash64(id))"),
    )
}

/// The SQL type of the record of one end: a tuple with an element for each column.
fn tuple(columns: &EndColumns) -> String {
    let elements = columns
        .connection
        .iter()
        .map(|column| format!("{} {}", quoted(&column.name), nullable(column, false)));
    let elements: Vec<String> = elements.collect();
    format!("Tuple(version UInt64, {})", elements.join(", "))
}

fn states(columns: &EndColumns, place: Place<'_>, database: &str, on: &str) -> String {
    let line = |(name, kind): (String, String)| {
        let codec = if kind.contains("Tuple") { " CODEC(ZSTD(1))" } else { "" };
        format!("    {name} {kind}{codec}")
    };
    let lines: Vec<String> = state_columns(columns).into_iter().map(line).collect();
    format!(
        "-- Both ends of each connection, in partial rows. Query the view `pairs`, which merges these rows.\n\
         CREATE TABLE IF NOT EXISTS {database}.{}{on} (\n{}\n) ENGINE = {}\nORDER BY pair;\n{}",
        local("pair_states", place),
        lines.join(",\n"),
        engine("AggregatingMergeTree", "", place),
        distributed("pair_states", place, database, on, "pair"),
    )
}

/// Selects rows of `pair_states` from rows of `ends`.
fn feed_query(columns: &EndColumns, ends: &str) -> String {
    let of_role = |role: &str| {
        let value = |name: &str, otherwise: &str| format!("if(role = '{role}', {name}, {otherwise})");
        let mut values = vec![value("version", "0")];
        values.extend(columns.connection.iter().map(|column| value(&quoted(&column.name), "NULL")));
        format!("CAST(({}), '{}')", values.join(", "), tuple(columns))
    };
    format!(
        "SELECT assumeNotNull(e.pair) AS pair, CAST(if(role = 'client', 1, 2), 'UInt8') AS ends,\n    {} AS client,\n    {} AS server,\n    e.began_ns AS began_ns\n\
         FROM {ends} AS e WHERE e.pair IS NOT NULL AND role IN ('client', 'server')",
        of_role("client"),
        of_role("server"),
    )
}

fn feed(columns: &EndColumns, place: Place<'_>, database: &str, on: &str) -> String {
    format!(
        "-- Fills `pair_states` from `ends`.\nCREATE MATERIALIZED VIEW IF NOT EXISTS {database}.pair_feed{on} TO {database}.{} AS\n{};\n",
        local("pair_states", place),
        feed_query(columns, &format!("{database}.{}", local("ends", place))),
    )
}

fn pairs(columns: &EndColumns, place: Place<'_>, on: &str) -> String {
    let (database, _) = place.names();
    let mut text = format!(
        "-- One row for each connection, with the columns and the sites of both ends; `ends`: 1 only the client's end is known, 2 only the server's, 3 both.\n\
         CREATE OR REPLACE VIEW {database}.pairs{on} AS\nSELECT pair, ends"
    );
    for (state, prefix) in [("c", "client"), ("s", "server")] {
        for Column { name, .. } in &columns.connection {
            let _ = write!(text, ",\n    tupleElement({state}, '{name}') AS {prefix}_{name}");
        }
        let _ = write!(text, ",\n    {} AS {prefix}_site", sites::site_of(place, state));
    }
    // Only a sender has a verdict on its paths. An end may be missing, so the payload is read from the other end too.
    let server_sends =
        "ifNull(server_bytes_sent, client_bytes_received) > ifNull(client_bytes_sent, server_bytes_received)";
    for name in SENDER.iter().filter(|name| columns.connection.iter().any(|column| column.name == **name)) {
        let [client, server] = [format!("client_{name}"), format!("server_{name}")];
        let value = format!("if({server_sends}, ifNull({server}, {client}), ifNull({client}, {server}))");
        let _ = write!(text, ",\n    {value} AS sender_{name}");
    }
    let _ = writeln!(
        text,
        "\nFROM (SELECT pair, groupBitOr(ends) AS ends, max(client) AS c, max(server) AS s FROM {database}.pair_states GROUP BY pair);"
    );
    text
}

fn version(place: Place<'_>, database: &str, on: &str, mpwatch: &str) -> String {
    let engine = shared_engine("MergeTree", "", place);
    format!(
        "-- Version of the tables. `mpwatch export clickhouse` refuses to write to tables of an older version.\n\
         CREATE TABLE IF NOT EXISTS {database}.schema_version{on} (version UInt32, mpwatch String, applied DateTime DEFAULT now())\n\
         ENGINE = {engine} ORDER BY version;\n\
         INSERT INTO {database}.schema_version (version, mpwatch) VALUES ({VERSION}, '{mpwatch}');\n"
    )
}

fn stored(column: &Column) -> String {
    if KNOWN.contains(&column.name.as_str()) {
        return plain(column).to_owned();
    }
    nullable(column, true)
}

/// The type of a column that may be unknown. `shared`: repeated text is stored once (`LowCardinality`).
fn nullable(column: &Column, shared: bool) -> String {
    let plain = plain(column);
    let is_shared = shared && column.kind == ColumnType::Text && !UNIQUE.contains(&column.name.as_str());
    if is_shared { format!("LowCardinality(Nullable({plain}))") } else { format!("Nullable({plain})") }
}

fn plain(column: &Column) -> &'static str {
    match column.kind {
        ColumnType::Integer => "Int64",
        ColumnType::Real => "Float64",
        ColumnType::Text => "String",
    }
}

/// The statement of an insertion; its rows ([`rows`]) follow.
pub fn insertion(database: &str, columns: &EndColumns) -> String {
    let names: Vec<String> = rows::names(columns).map(|name| quoted(&name)).collect();
    format!("INSERT INTO {}.ends ({}) FORMAT TabSeparated\n", quoted(database), names.join(", "))
}

/// The query for the greatest version of the tables that was applied.
pub fn version_query(database: &str) -> String {
    format!("SELECT max(version) FROM {}.schema_version FORMAT TSV", quoted(database))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> EndColumns {
        EndColumns {
            connection: vec![
                Column::new("id", ColumnType::Text),
                Column::new("began_ns", ColumnType::Integer),
                Column::new("comm", ColumnType::Text),
                Column::new("j_per_gb", ColumnType::Real),
            ],
            subflow: vec![Column::new("id", ColumnType::Text)],
            ..EndColumns::default()
        }
    }

    #[test]
    fn columns_have_their_types() {
        let text = ddl(&columns(), Place { database: "mpwatch", cluster: None }, "1.2.3");
        for line in [
            "id String CODEC",
            "began_ns Int64 CODEC",
            "comm LowCardinality(Nullable(String)) CODEC",
            "j_per_gb Nullable(Float64) CODEC",
            "`subflow.id` Array(Nullable(String)) CODEC",
            "tupleElement(s, 'comm') AS server_comm",
            "ENGINE = ReplacingMergeTree(version)",
            "\nENGINE = MergeTree() ORDER BY version",
            "AS client_site",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(!text.contains("CLUSTER") && !text.contains("_local"), "{text}");
    }

    #[test]
    fn a_cluster_has_replicated_and_distributed_tables_and_names_are_quoted() {
        let text = ddl(&columns(), Place { database: "a`b", cluster: Some("two shards") }, "1.2.3");
        for line in [
            "CREATE DATABASE IF NOT EXISTS `a\\`b` ON CLUSTER `two shards`;",
            "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', version)",
            "ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')",
            "Distributed(`two shards`, `a\\`b`, ends_local, ifNull(pair, cityHash64(id)))",
            "ReplicatedMergeTree('/clickhouse/tables/{database}/{table}', '{replica}')",
            "ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{replica}', version)",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
