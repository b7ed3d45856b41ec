// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views, a stable interface (docs/store.md). They show all table columns; written here are ids, sums and times derived from others.

use crate::tables::{TableInfo, tables};

/// The views and their queries.
pub(crate) fn views() -> Vec<(&'static str, String)> {
    let [_, connection, subflow, pair, event, sample] = tables();
    vec![
        ("v_run", RUNS.to_owned()),
        ("v_connection", connections(&connection)),
        ("v_subflow", subflows(&subflow)),
        ("v_bottleneck", bottlenecks(&pair)),
        ("v_event", events(&event)),
        ("v_sample", format!("SELECT {} FROM sample AS p", sample.shown("p", &[]))),
        ("v_energy", ENERGY.to_owned()),
        ("v_peer_daily", PEERS.to_owned()),
    ]
}

const RUNS: &str = "SELECT id AS run, host, boot_id, kernel, mpwatch, from_ns, to_ns,
    datetime(from_ns / 1000000000, 'unixepoch') AS from_utc, datetime(to_ns / 1000000000, 'unixepoch') AS to_utc,
    energy ->> 'source' AS energy_source, energy ->> 'idle' AS energy_idle,
    losses ->> 'records_lost' AS records_lost, losses ->> 'vanished' AS vanished,
    snapshots_dropped, flows_lost, samples_lost, cut_short, labels, interval_ms, cpu_model, governor, mptcp_sysctls, missing, losses, counters, cpus, energy
FROM run";

const ENERGY: &str = "SELECT r.id AS run, r.host, z.value ->> 'zone' AS zone, r.energy ->> 'source' AS source,
    z.value ->> 'zone_uj' AS zone_uj, z.value ->> 'flows_uj' AS flows_uj, z.value ->> 'app_uj' AS app_uj,
    z.value ->> 'other_uj' AS other_uj, z.value ->> 'net_shared_uj' AS net_shared_uj, z.value ->> 'irq_uj' AS irq_uj,
    z.value ->> 'self_uj' AS self_uj, z.value ->> 'unexplained_uj' AS unexplained_uj, z.value ->> 'idle_uj' AS idle_uj
FROM run AS r, json_each(r.energy, '$.zones') AS z";

const PEERS: &str = "SELECT date(began_ns / 1000000000, 'unixepoch') AS day, host, remote_ip, protocol,
    count(*) AS connections, sum(bytes_sent) AS bytes_sent, sum(bytes_received) AS bytes_received,
    sum(bytes_retransmitted) AS bytes_retransmitted, sum(active_uj) AS active_uj, avg(age_ns) / 1e9 AS mean_age_s
FROM v_connection GROUP BY day, host, remote_ip, protocol";

/// The id of a subflow as everywhere in mpwatch.
const SUBFLOW_ID: &str = "printf('%x.%d', s.cookie, s.generation)";
const SUBFLOW_CPU: &str =
    "ifnull(s.cpu_syscall_ns, 0) + s.cpu_rx_softirq_ns + s.cpu_tx_ns + s.cpu_timer_ns + s.cpu_worker_ns";

fn subflows(table: &TableInfo) -> String {
    let columns = table.shown("s", &["connection", "place"]);
    format!(
        "SELECT s.connection, s.place, {SUBFLOW_ID} AS id, {columns}, {SUBFLOW_CPU} AS cpu_ns FROM subflow AS s"
    )
}

/// Sums over subflows by subqueries: a join with grouped subflows would read those of all connections for each connection.
fn connections(table: &TableInfo) -> String {
    let of_subflows = |value: &str| format!("(SELECT {value} FROM subflow AS s WHERE s.connection = c.id)");
    let energy = |column: &str| {
        of_subflows(&format!("CASE WHEN count(s.{column}) = count(s.energy_source) THEN sum(s.{column}) END"))
    };
    let source =
        of_subflows("CASE WHEN min(s.energy_source) = max(s.energy_source) THEN min(s.energy_source) END");
    let payload = "coalesce(c.observed_bytes, ifnull(c.bytes_sent, 0) + ifnull(c.bytes_received, 0))";
    [
        "SELECT c.id AS connection, r.host, r.boot_id, r.labels",
        "printf('%x-%08x-%x', n.cookie, ifnull(c.token, 0), c.birth) AS id, n.name AS netns, n.inode AS netns_inode",
        &table.shown("c", &["id", "netns", "closed"]),
        "CASE WHEN c.seen_open THEN c.began_ns END AS opened_at_ns, c.began_ns + c.age_ns AS known_until_ns",
        "CASE WHEN c.closed THEN c.began_ns + c.age_ns END AS closed_at_ns",
        &format!("{} AS bytes_retransmitted", of_subflows("sum(s.bytes_retransmitted)")),
        &format!("{} AS subflows", of_subflows("count(*)")),
        &format!(
            "{} AS cpu_ns",
            of_subflows(&format!("CASE WHEN count(s.cpu_rx_softirq_ns) = count(*) THEN sum({SUBFLOW_CPU}) END"))
        ),
        &format!("{} AS active_uj, {} AS lo_uj", energy("active_uj"), energy("lo_uj")),
        &format!("{} AS hi_uj, {} AS full_uj", energy("hi_uj"), energy("full_uj")),
        &format!("(SELECT text FROM name WHERE id = {source}) AS energy_source"),
        &format!(
            "CASE WHEN {payload} > 0 THEN {} * 1000.0 / {payload} END AS j_per_gb
FROM connection AS c JOIN run AS r ON r.id = c.run JOIN netns AS n ON n.id = c.netns",
            energy("active_uj")
        ),
    ]
    .join(", ")
}

fn bottlenecks(table: &TableInfo) -> String {
    let id = |end: &str| {
        format!(
            "(SELECT {SUBFLOW_ID} FROM subflow AS s WHERE s.connection = p.connection AND s.place = p.{end}) AS {end}"
        )
    };
    let columns = table.shown("p", &["connection", "a", "b"]);
    format!("SELECT p.connection, {}, {}, {columns} FROM pair AS p", id("a"), id("b"))
}

/// Rows of the table, and the steps that columns hold: see [`crate::timeline`].
fn events(table: &TableInfo) -> String {
    let unless_row = |event: &str, condition: &str| {
        format!(
            "NOT EXISTS (SELECT 1 FROM event AS e WHERE e.connection = c.id AND e.event = '{event}'{condition})"
        )
    };
    let of_connection = |event: &str, at: &str, condition: &str| {
        let unless = unless_row(event, "");
        format!(
            "SELECT c.id, {at}, 'tracepoint', '{event}', NULL, NULL, NULL, NULL, NULL FROM connection AS c WHERE {condition} AND {unless}"
        )
    };
    let of_subflow = |event: &str, at: &str, word: &str| {
        let unless = unless_row(event, &format!(" AND e.subflow = {SUBFLOW_ID}"));
        format!(
            "SELECT c.id, s.{at}, 'tracepoint', '{event}', {SUBFLOW_ID}, NULL, NULL, {word}, NULL FROM connection AS c JOIN subflow AS s ON s.connection = c.id WHERE s.{at} IS NOT NULL AND {unless}"
        )
    };
    let numbers =
        ["gap_us", "stale", "backup", "total", "address_id"].map(|key| format!("e.detail ->> '{key}'"));
    [
        format!(
            "SELECT {}, coalesce({}) AS number, e.detail ->> 'reason' AS word, e.detail ->> 'address' AS address FROM event AS e",
            table.shown("e", &["number"]),
            numbers.join(", "),
        ),
        of_connection("opened", "c.began_ns", "c.seen_open"),
        of_connection("closed", "c.began_ns + c.age_ns", "c.closed"),
        of_subflow("subflow_opened", "created_at_ns", "NULL"),
        of_subflow("subflow_established", "established_at_ns", "NULL"),
        of_subflow("subflow_closed", "closed_at_ns", "(SELECT text FROM name WHERE id = s.close_reason)"),
    ]
    .join("\nUNION ALL\n")
}
