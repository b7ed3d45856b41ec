// SPDX-License-Identifier: MIT OR Apache-2.0
//! Migrates files of schemas 1 and 2. Their views have the columns of today's tables; only what these lack is read from the old tables.

use rusqlite::Connection;

use crate::schema::columns::{Column, Kind};
use crate::schema::tables::{INDEX, TableInfo, column_names, tables};

/// Where an old schema keeps what its views lack.
struct OldSchema {
    /// Joins of `v_connection AS v` and `connection AS c`.
    connection: &'static str,
    netns: &'static str,
    /// Groups of subflows as JSON, or an object where there is more than groups.
    groups: &'static str,
    /// Joins of `v_subflow AS v` and `subflow AS s`.
    subflow: &'static str,
    cookie: &'static str,
    generation: &'static str,
    energy_cpu_ns: &'static str,
}

const VERSION_1: OldSchema = OldSchema {
    connection: "",
    netns: "c.netns",
    groups: "CASE WHEN c.bottlenecks LIKE '[%' THEN c.bottlenecks -> 0 END",
    subflow: "",
    cookie: "s.cookie",
    generation: "s.generation",
    energy_cpu_ns: "s.energy_cpu_ns",
};

const VERSION_2: OldSchema = OldSchema {
    connection: "JOIN connection_kind AS k ON k.id = c.kind",
    netns: "k.netns",
    groups: "(SELECT text FROM name WHERE id = k.grouped)",
    subflow: "JOIN subflow_kind AS k ON k.id = s.kind JOIN connection AS c ON c.id = v.connection",
    cookie: "c.birth + s.cookie_more",
    generation: "k.generation",
    energy_cpu_ns: "s.energy_cpu_more_ns + ifnull(v.cpu_ns, 0)",
};

/// The fields of an event other than its kind, as JSON.
const DETAIL: &str = "CASE (SELECT text FROM name WHERE id = v.kind)
    WHEN 'stalled' THEN json_object('gap_us', v.number)
    WHEN 'subflow_stale' THEN json_object('stale', json(iif(v.number, 'true', 'false')))
    WHEN 'priority_changed' THEN json_object('backup', json(iif(v.number, 'true', 'false')))
    WHEN 'address_announced' THEN json_object('total', v.number)
    WHEN 'peer_address_announced' THEN json_object('address_id', v.number, 'address', v.address)
    WHEN 'peer_address_removed' THEN json_object('address_id', v.number)
    WHEN 'subflow_closed' THEN json_object('reason', (SELECT text FROM name WHERE id = v.word))
    WHEN 'fell_back' THEN json_object('reason', (SELECT text FROM name WHERE id = v.word)) END";

/// A table to be filled: its source, and the columns that the source does not have under their own names.
struct Source<'a> {
    /// The view or table whose columns are taken, with the alias `v`.
    name: &'a str,
    joins: String,
    columns: Vec<(&'a str, String)>,
}

/// Replaces the tables and views of an old schema, except `run`, `name` and `netns`, which are unchanged.
pub(crate) fn from_version(database: &Connection, version: i64) -> rusqlite::Result<()> {
    let old = if version == 1 { VERSION_1 } else { VERSION_2 };
    let groups = old.groups;
    // Verdicts of old schemas refer to subflows by id, not by place.
    database.execute_batch(&format!(
        "CREATE TEMP TABLE place (connection INTEGER, id TEXT, place INTEGER, PRIMARY KEY (connection, id)) WITHOUT ROWID;
         INSERT OR IGNORE INTO place SELECT connection, id, place FROM v_subflow;
         INSERT OR IGNORE INTO name (text) VALUES ('concordance'), ('shared'), ('disjoint'), ('no_bottleneck'), ('unknown');
         INSERT OR IGNORE INTO name (text) SELECT DISTINCT {} FROM connection AS c {} WHERE {groups} IS NOT NULL;",
        groups_only(groups),
        old.connection,
    ))?;
    let [_, connection, subflow, pair, event, sample] = tables();
    fill(database, &connection, &connections(&old))?;
    fill(database, &subflow, &subflows(&old))?;
    fill(database, &pair, &pairs())?;
    fill(database, &event, &events())?;
    fill(database, &sample, &Source { name: "v_sample", joins: String::new(), columns: Vec::new() })?;
    database.execute_batch(
        "DROP VIEW v_peer_daily; DROP VIEW v_energy; DROP VIEW v_sample; DROP VIEW v_event; DROP VIEW v_bottleneck;
         DROP VIEW v_connection; DROP VIEW v_subflow; DROP VIEW v_run; DROP TABLE temp.place;
         DROP TABLE sample; DROP TABLE event; DROP TABLE subflow; DROP TABLE connection;
         DROP TABLE IF EXISTS verdict; DROP TABLE IF EXISTS ends;
         DROP TABLE IF EXISTS subflow_kind; DROP TABLE IF EXISTS connection_kind;",
    )?;
    for table in [connection, subflow, pair, event, sample] {
        database.execute_batch(&format!("ALTER TABLE new_{0} RENAME TO {0}", table.name))?;
    }
    database.execute_batch(INDEX)
}

fn fill(database: &Connection, table: &TableInfo, source: &Source<'_>) -> rusqlite::Result<()> {
    let name = format!("new_{}", table.name);
    table.create(database, &name)?;
    let known = column_names(database, source.name)?;
    let values: Vec<String> = table.columns.iter().map(|column| value(column, source, &known)).collect();
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    let Source { name: from, joins, .. } = source;
    database
        .execute_batch(&format!("INSERT INTO {name} ({columns}) SELECT {values} FROM {from} AS v {joins}"))
}

/// SQL for the value of a column, converted from how views show it.
fn value(column: &Column, source: &Source<'_>, known: &[String]) -> String {
    let name = column.name.as_str();
    if let Some((_, value)) = source.columns.iter().find(|(special, _)| *special == name) {
        return value.clone();
    }
    let shown = column.shown_name();
    match column.kind {
        _ if !known.iter().any(|known| known == shown) => {
            if column.required { "0" } else { "NULL" }.to_owned()
        }
        Kind::Name => format!("(SELECT id FROM name WHERE text = v.{shown})"),
        Kind::Ppm => format!("CAST(round(v.{shown} * 1e6) AS INTEGER)"),
        _ => format!("v.{shown}"),
    }
}

fn groups_only(groups: &str) -> String {
    format!("CASE WHEN {groups} LIKE '{{%' THEN {groups} -> 'groups' ELSE {groups} END")
}

fn connections(old: &OldSchema) -> Source<'static> {
    let groups = old.groups;
    let name = |text: &str| format!("(SELECT id FROM name WHERE text = {text})");
    let method = format!(
        "CASE WHEN {groups} LIKE '{{%' THEN {groups} ->> 'method' WHEN {groups} IS NOT NULL THEN 'concordance' END"
    );
    let caps = format!("CASE WHEN {groups} LIKE '{{%' THEN nullif({groups} -> 'shared_caps', '[]') END");
    Source {
        name: "v_connection",
        joins: format!("JOIN connection AS c ON c.id = v.connection {}", old.connection),
        columns: vec![
            ("id", "v.connection".to_owned()),
            ("netns", old.netns.to_owned()),
            // Tokens were stored with a sign.
            ("token", "nullif(c.token & 0xffffffff, 0)".to_owned()),
            ("remote_token", "c.remote_token & 0xffffffff".to_owned()),
            ("birth", "c.birth".to_owned()),
            ("seen_open", "c.flags & 1".to_owned()),
            ("closed", "c.flags >> 1 & 1".to_owned()),
            ("bottleneck_method", name(&method)),
            ("bottleneck_groups", name(&groups_only(groups))),
            ("shared_caps", caps),
        ],
    }
}

fn subflows(old: &OldSchema) -> Source<'static> {
    Source {
        name: "v_subflow",
        joins: format!("JOIN subflow AS s ON s.id = v.connection * 4096 + v.place {}", old.subflow),
        columns: vec![
            ("cookie", old.cookie.to_owned()),
            ("generation", old.generation.to_owned()),
            ("energy_cpu_ns", old.energy_cpu_ns.to_owned()),
        ],
    }
}

fn pairs() -> Source<'static> {
    let place = |end: &str| {
        format!("(SELECT place FROM temp.place AS p WHERE p.connection = v.connection AND p.id = v.{end})")
    };
    Source { name: "v_bottleneck", joins: String::new(), columns: vec![("a", place("a")), ("b", place("b"))] }
}

/// Only events with rows of their own: those that followed from flags are columns today.
fn events() -> Source<'static> {
    let name = |column: &str| format!("(SELECT text FROM name WHERE id = v.{column})");
    Source {
        name: "event",
        joins: "JOIN connection AS c ON c.id = v.connection".to_owned(),
        columns: vec![
            ("number", "v.seq".to_owned()),
            ("at_ns", "c.began_ns + v.after_ns".to_owned()),
            ("source", name("source")),
            ("event", name("kind")),
            ("detail", DETAIL.to_owned()),
        ],
    }
}
