// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views, a stable interface (docs/store.md). They show the columns of the tables, and ids, sums and times that follow from these columns.

use mpwatch_model::table::ColumnType::{Integer, Real, Text};

use super::rows::{ConnectionRow, EventRow, PairRow, SampleRow, SubflowRow};
use super::tables::{TableInfo, ViewColumn, listed};

/// The views and their queries.
pub(crate) fn views() -> Vec<(&'static str, String)> {
    let select = |columns: &[ViewColumn], from: &str| format!("SELECT {} FROM {from}", listed(columns));
    vec![
        ("v_run", RUNS.to_owned()),
        ("v_connection", select(&connection_columns(), CONNECTIONS)),
        ("v_subflow", select(&subflow_columns(), "subflow AS s")),
        ("v_bottleneck", select(&bottleneck_columns(), "pair AS p")),
        ("v_event", events(&TableInfo::new::<EventRow>())),
        ("v_sample", select(&TableInfo::new::<SampleRow>().shown("p", &[]), "sample AS p")),
        ("v_energy", ENERGY.to_owned()),
        ("v_peer_daily", PEERS.to_owned()),
        ("v_flow_class", CLASSES.to_owned()),
    ]
}

const CONNECTIONS: &str = "connection AS c JOIN run AS r ON r.id = c.run JOIN netns AS n ON n.id = c.netns";

/// When a connection closed or, if it is open, until when it was: its row may be older than the last snapshot of its run.
pub(crate) const KNOWN_UNTIL: &str =
    "CASE WHEN c.closed THEN c.began_ns + c.age_ns ELSE max(c.began_ns + c.age_ns, r.to_ns) END";

const RUNS: &str = "SELECT id AS run, host, boot_id, kernel, mpwatch, clock_error_ns, from_ns, to_ns,
    datetime(from_ns / 1000000000, 'unixepoch') AS from_utc, datetime(to_ns / 1000000000, 'unixepoch') AS to_utc,
    energy ->> 'source' AS energy_source, energy ->> 'idle' AS energy_idle,
    losses ->> 'records_lost' AS records_lost, losses ->> 'vanished' AS vanished,
    (SELECT 1.0 - sum(c.observed_bytes) * 1.0 / nullif(sum(c.observed_wire_bytes_estimate), 0) FROM connection AS c WHERE c.run = run.id) AS excess_ratio,
    snapshots_dropped, flows_lost, samples_lost, cut_short, labels, interval_ms, cpu_model, governor, mptcp_sysctls, missing, losses, counters, cpus, energy
FROM run";

const ENERGY: &str = "SELECT r.id AS run, r.host, z.value ->> 'zone' AS zone, r.energy ->> 'source' AS source,
    z.value ->> 'zone_uj' AS zone_uj, z.value ->> 'flows_uj' AS flows_uj, z.value ->> 'app_uj' AS app_uj,
    z.value ->> 'other_uj' AS other_uj, z.value ->> 'net_shared_uj' AS net_shared_uj, z.value ->> 'irq_uj' AS irq_uj,
    z.value ->> 'self_uj' AS self_uj, z.value ->> 'unexplained_uj' AS unexplained_uj, z.value ->> 'idle_uj' AS idle_uj
FROM run AS r, json_each(r.energy, '$.zones') AS z";

const PEERS: &str = "SELECT date(began_ns / 1000000000, 'unixepoch') AS day, host, remote_ip, protocol,
    count(*) AS connections, sum(fallback IS NOT NULL) AS fallbacks, sum(bytes_sent) AS bytes_sent, sum(bytes_received) AS bytes_received,
    sum(observed_bytes) AS observed_bytes, sum(bytes_retransmitted) AS bytes_retransmitted, sum(active_uj) AS active_uj,
    avg(age_ns) / 1e9 AS mean_age_s
FROM v_connection GROUP BY day, host, remote_ip, protocol";

/// Sums by class. If both ends of a connection are in the file, both are counted.
const CLASSES: &str = "SELECT run, host, labels, protocol, fallback IS NOT NULL AS fell_back, flow_class,
    count(*) AS connections, sum(observed_bytes) AS observed_bytes, avg(goodput_bps) AS mean_goodput_bps,
    1.0 - sum(observed_bytes) * 1.0 / nullif(sum(observed_wire_bytes_estimate), 0) AS excess_ratio,
    avg(jain_index) AS mean_jain_index, sum(active_uj) AS active_uj
FROM v_connection GROUP BY run, protocol, fell_back, flow_class";

/// The id of a subflow as text, as in the JSON.
const SUBFLOW_ID: &str = "printf('%x.%d', s.cookie, s.generation)";
const SUBFLOW_CPU: &str =
    "ifnull(s.cpu_syscall_ns, 0) + s.cpu_rx_softirq_ns + s.cpu_tx_ns + s.cpu_timer_ns + s.cpu_worker_ns";

pub(crate) fn subflow_columns() -> Vec<ViewColumn> {
    let mut columns = vec![
        ViewColumn::new("connection", Integer, "s.connection"),
        ViewColumn::new("place", Integer, "s.place"),
        ViewColumn::new("id", Text, SUBFLOW_ID),
    ];
    columns.extend(TableInfo::new::<SubflowRow<'_>>().shown("s", &["connection", "place"]));
    columns.push(ViewColumn::new("cpu_ns", Integer, SUBFLOW_CPU));
    columns
}

/// Aggregates over the subflows `s` of a connection.
fn sums() -> [ViewColumn; 11] {
    let cpu = format!("CASE WHEN count(s.cpu_rx_softirq_ns) = count(*) THEN sum({SUBFLOW_CPU}) END");
    let source = "CASE WHEN min(s.energy_source) = max(s.energy_source) THEN min(s.energy_source) END";
    [
        ViewColumn::new("bytes_retransmitted", Integer, "sum(s.bytes_retransmitted)"),
        ViewColumn::new("subflows", Integer, "count(*)"),
        busy("busy_ns"),
        busy("rwnd_limited_ns"),
        busy("sndbuf_limited_ns"),
        ViewColumn::new("cpu_ns", Integer, cpu),
        energy("active_uj"),
        energy("lo_uj"),
        energy("hi_uj"),
        energy("full_uj"),
        ViewColumn::new("energy_source", Text, source),
    ]
}

fn busy(name: &str) -> ViewColumn {
    ViewColumn::new(name, Integer, format!("CASE WHEN count(s.{name}) = count(*) THEN sum(s.{name}) END"))
}

fn energy(name: &str) -> ViewColumn {
    let sql = format!("CASE WHEN count(s.{name}) = count(s.energy_source) THEN sum(s.{name}) END");
    ViewColumn::new(name, Integer, sql)
}

/// The columns of `v_connection`. Sums are subqueries. A join with grouped subflows would read the subflows of all connections for each
/// connection.
pub(crate) fn connection_columns() -> Vec<ViewColumn> {
    columns_with(&|sum| format!("(SELECT {} FROM subflow AS s WHERE s.connection = c.id)", sum.sql))
}

/// The same columns for the connection with the number `?1`, and their `FROM` clause. Its subflows are read once, not for each sum.
pub(crate) fn one_connection() -> (Vec<ViewColumn>, String) {
    let sums: Vec<String> = sums().iter().map(|sum| format!("{} AS {}", sum.sql, sum.name)).collect();
    let sums = format!("(SELECT {} FROM subflow AS s WHERE s.connection = ?1) AS t", sums.join(", "));
    (columns_with(&|sum| format!("t.{}", sum.name)), format!("{CONNECTIONS} JOIN {sums} WHERE c.id = ?1"))
}

/// `value` returns the expression of a sum.
fn columns_with(value: &dyn Fn(&ViewColumn) -> String) -> Vec<ViewColumn> {
    let payload = "coalesce(c.observed_bytes, ifnull(c.bytes_sent, 0) + ifnull(c.bytes_received, 0))";
    let active = value(&energy("active_uj"));
    let per_gb = format!("CASE WHEN {payload} > 0 THEN {active} * 1000.0 / {payload} END");
    let summed = |sum: &ViewColumn| {
        let number = value(sum);
        let sql =
            if sum.kind == Text { format!("(SELECT text FROM name WHERE id = {number})") } else { number };
        ViewColumn::new(&sum.name, sum.kind, sql)
    };
    let mut columns = vec![
        ViewColumn::new("connection", Integer, "c.id"),
        ViewColumn::new("host", Text, "r.host"),
        ViewColumn::new("boot_id", Text, "r.boot_id"),
        ViewColumn::new("labels", Text, "r.labels"),
        ViewColumn::new("id", Text, "printf('%x-%08x-%x', n.cookie, ifnull(c.token, 0), c.birth)"),
        ViewColumn::new("netns", Text, "n.name"),
        ViewColumn::new("netns_inode", Integer, "n.inode"),
    ];
    columns.extend(TableInfo::new::<ConnectionRow<'_>>().shown("c", &["id", "netns", "closed", "changed"]));
    columns.extend([
        ViewColumn::new("opened_at_ns", Integer, "CASE WHEN c.seen_open THEN c.began_ns END"),
        ViewColumn::new("known_until_ns", Integer, KNOWN_UNTIL),
        ViewColumn::new("closed_at_ns", Integer, "CASE WHEN c.closed THEN c.began_ns + c.age_ns END"),
        ViewColumn::new("clock_error_ns", Integer, "r.clock_error_ns"),
    ]);
    columns.extend(sums().iter().map(summed));
    columns.push(ViewColumn::new("j_per_gb", Real, per_gb));
    columns
}

pub(crate) fn bottleneck_columns() -> Vec<ViewColumn> {
    let id = |end: &str| {
        let sql = format!(
            "(SELECT {SUBFLOW_ID} FROM subflow AS s WHERE s.connection = p.connection AND s.place = p.{end})"
        );
        ViewColumn::new(end, Text, sql)
    };
    let mut columns = vec![ViewColumn::new("connection", Integer, "p.connection"), id("a"), id("b")];
    columns.extend(TableInfo::new::<PairRow>().shown("p", &["connection", "a", "b"]));
    columns
}

/// Fields of events that have a column of their own in `v_event`, and the column's name.
const EVENT_FIELDS: [(&str, &str); 8] = [
    ("gap_us", "gap_us"),
    ("stale", "stale"),
    ("silent_us", "silent_us"),
    ("backup", "backup"),
    ("total", "addresses"),
    ("address_id", "address_id"),
    ("address", "address"),
    ("reason", "reason"),
];

/// The query of `v_event`: the rows of the table, and the steps that follow from columns (see [`super::timeline`]).
fn events(table: &TableInfo) -> String {
    let unless_row = |event: &str, condition: &str| {
        format!(
            "NOT EXISTS (SELECT 1 FROM event AS e WHERE e.connection = c.id AND e.event = '{event}'{condition})"
        )
    };
    // These events have no `detail`, and no field except the last, the reason.
    let nulls = "NULL, ".repeat(EVENT_FIELDS.len());
    let of_connection = |event: &str, at: &str, condition: &str| {
        let unless = unless_row(event, "");
        format!(
            "SELECT c.id, {at}, 'tracepoint', '{event}', NULL, {nulls}NULL FROM connection AS c WHERE {condition} AND {unless}"
        )
    };
    let of_subflow = |event: &str, at: &str, reason: &str| {
        let unless = unless_row(event, &format!(" AND e.subflow = {SUBFLOW_ID}"));
        format!(
            "SELECT c.id, s.{at}, 'tracepoint', '{event}', {SUBFLOW_ID}, {nulls}{reason} FROM connection AS c JOIN subflow AS s ON s.connection = c.id WHERE s.{at} IS NOT NULL AND {unless}"
        )
    };
    let fields = EVENT_FIELDS.map(|(field, name)| format!("e.detail ->> '{field}' AS {name}"));
    [
        format!("SELECT {}, {} FROM event AS e", listed(&table.shown("e", &["number"])), fields.join(", ")),
        of_connection("opened", "c.began_ns", "c.seen_open"),
        of_connection("closed", "c.began_ns + c.age_ns", "c.closed"),
        of_subflow("subflow_opened", "created_at_ns", "NULL"),
        of_subflow("subflow_established", "established_at_ns", "NULL"),
        of_subflow("subflow_closed", "closed_at_ns", "(SELECT text FROM name WHERE id = s.close_reason)"),
    ]
    .join("\nUNION ALL\n")
}
