// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server or cluster that has the tables, the names of its tables, and their engines.

/// Where the tables are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Name of the database.
    pub database: &'a str,
    /// Name of a cluster with several shards or replicas. `None`: a single server.
    pub cluster: Option<&'a str>,
}

impl Place<'_> {
    /// The quoted name of the database, and the clause `ON CLUSTER` for its statements. Empty clause: a single server.
    pub(super) fn names(&self) -> (String, String) {
        let on = self.cluster.map(|name| format!(" ON CLUSTER {}", quoted(name)));
        (quoted(self.database), on.unwrap_or_default())
    }
}

/// The name of the table that stores rows. In a cluster, the table without the suffix distributes them.
pub(super) fn local(table: &str, place: Place<'_>) -> String {
    if place.cluster.is_some() { format!("{table}_local") } else { table.to_owned() }
}

/// The engine of a table whose rows are divided among the shards.
pub(super) fn engine(name: &str, arguments: &str, place: Place<'_>) -> String {
    if place.cluster.is_none() {
        return format!("{name}({arguments})");
    }
    let comma = if arguments.is_empty() { "" } else { ", " };
    format!(
        "Replicated{name}('/clickhouse/tables/{{shard}}/{{database}}/{{table}}', '{{replica}}'{comma}{arguments})"
    )
}

/// The engine of a table that is the same on every server.
pub(super) fn shared_engine(name: &str, arguments: &str, place: Place<'_>) -> String {
    engine(name, arguments, place).replace("/{shard}", "")
}

/// A name in SQL, in backquotes unless it is a plain identifier.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_plain { name.to_owned() } else { format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`")) }
}

/// A string in SQL.
pub(super) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
