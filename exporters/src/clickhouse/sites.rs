// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sites of hosts, and hourly sums by pair of sites, which may be kept longer than single connections.
//!
//! The sums of the last days are recomputed as a whole, so an end that arrives late or twice is counted correctly. If a site becomes known,
//! a recomputation moves connections to other rows; the view ignores the rows that only earlier computations have.

use super::place::{Place, quoted_text, shared_engine};

/// Interval between computations, and the number of days that each computation covers. An end that arrives later is missing.
const EVERY_MINUTES: u32 = 15;
const DAYS_BACK: u32 = 2;

/// Columns of the table `sites`.
const SITES: [(&str, &str); 2] = [("network", "String"), ("site", "String")];
/// Columns that group the sums, and the time of the computation. An empty site is unknown.
const KEY: [(&str, &str); 5] = [
    ("hour", "DateTime('UTC')"),
    ("client_site", "String"),
    ("server_site", "String"),
    ("subflows", "Int64"),
    ("version", "DateTime64(3)"),
];
const GROUPS: &str = "hour, client_site, server_site, subflows";

/// Columns of the sums, with their types and their expressions over `pairs`. A connection counts with its weight. Energy and waste are sums
/// over the connections for which both ends measured them; `energy_bytes` is the payload of connections with energy. NULL: unknown for all.
const SUMS: [(&str, &str, &str); 6] = [
    ("connections", "Float64", "sum(weight)"),
    ("bytes", "Nullable(Float64)", "sumOrNull(payload * weight)"),
    ("energy_uj", "Nullable(Float64)", "sumOrNull(uj * weight)"),
    ("energy_bytes", "Nullable(Float64)", "sumOrNull(if(uj IS NULL, NULL, client_observed_bytes) * weight)"),
    ("extra_subflows", "Nullable(Float64)", "sumOrNull(sender_extra_subflows * weight)"),
    (
        "wasted_uj",
        "Nullable(Float64)",
        "sumOrNull(uj * sender_extra_subflows / nullIf(client_subflows, 0) * weight)",
    ),
];

/// The tables, with names and types of their columns.
pub(super) fn table_columns() -> [(String, Vec<(String, String)>); 2] {
    let owned = |columns: &[(&str, &str)]| {
        columns.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect::<Vec<_>>()
    };
    let sums = SUMS.map(|(name, kind, _)| (name, kind));
    let hours: Vec<(&str, &str)> = KEY.into_iter().chain(sums).collect();
    [("sites".to_owned(), owned(&SITES)), ("site_hour_states".to_owned(), owned(&hours))]
}

fn listed(columns: &[(String, String)]) -> String {
    let columns: Vec<String> = columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    columns.join(", ")
}

/// The networks of sites, and the dictionary by which `pairs` finds the site of an address.
pub(super) fn tables(place: Place<'_>, database: &str, on: &str) -> String {
    let engine = shared_engine("ReplacingMergeTree", "", place);
    let [(_, columns), _] = table_columns();
    let columns = listed(&columns);
    let query = quoted_text(&format!("SELECT network, site FROM {database}.sites FINAL"));
    format!(
        "-- Networks of sites, for example INSERT INTO {database}.sites VALUES ('10.1.0.0/16', 'berlin'), ('fd00:1::/32', 'berlin'). The longest\n\
         -- matching prefix determines the site. A label `site` of a daemon takes precedence.\n\
         CREATE TABLE IF NOT EXISTS {database}.sites{on} ({columns})\n\
         ENGINE = {engine} ORDER BY network;\n\
         CREATE DICTIONARY IF NOT EXISTS {database}.site_of{on} (network String, site String DEFAULT '')\n\
         PRIMARY KEY network SOURCE(CLICKHOUSE(QUERY {query}))\n\
         LAYOUT(IP_TRIE()) LIFETIME(MIN 60 MAX 300);\n"
    )
}

/// The site of an end, from its record. NULL: unknown.
pub(super) fn site_of(place: Place<'_>, record: &str) -> String {
    let dictionary = quoted_text(&format!("{}.site_of", place.database));
    let label = format!("JSONExtractString(ifNull(tupleElement({record}, 'labels'), ''), 'site')");
    let address = format!("toIPv6OrDefault(ifNull(tupleElement({record}, 'local_ip'), ''))");
    let network = format!("dictGetOrDefault({dictionary}, 'site', tuple({address}), '')");
    format!("nullIf(if({label} != '', {label}, {network}), '')")
}

/// The table of sums, the view that fills it, and the view of the valid sums.
pub(super) fn hours(place: Place<'_>, database: &str, on: &str) -> String {
    let engine = shared_engine("ReplacingMergeTree", "version", place);
    let [_, (_, columns)] = table_columns();
    let columns = listed(&columns);
    format!(
        "-- Sums by hour, pair of sites and number of subflows.\n\
         CREATE TABLE IF NOT EXISTS {database}.site_hour_states{on} ({columns})\n\
         ENGINE = {engine} PARTITION BY toYYYYMM(hour) ORDER BY ({GROUPS});\n\n\
         -- Fills `site_hour_states` from `pairs`.\n\
         CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.site_hour_feed{on} REFRESH EVERY {EVERY_MINUTES} MINUTE APPEND\n\
         TO {database}.site_hour_states AS\n{};\n\n\
         -- The valid rows of `site_hour_states`: the newest computation of each hour.\n\
         CREATE OR REPLACE VIEW {database}.site_hours{on} AS\n\
         SELECT * FROM {database}.site_hour_states FINAL\n\
         WHERE (hour, version) IN (SELECT hour, max(version) FROM {database}.site_hour_states GROUP BY hour);\n",
        computation(database)
    )
}

/// The sums of the last days. A connection belongs to the hour in which its client opened it; without a record of the
/// client, to the hour in which its server accepted it.
fn computation(database: &str) -> String {
    let sums = SUMS.map(|(name, _, value)| format!("{value} AS {name}")).join(",\n    ");
    format!(
        "SELECT toStartOfHour(toDateTime(intDiv(began, 1000000000), 'UTC')) AS hour,\n    \
         ifNull(c_site, '') AS client_site, ifNull(s_site, '') AS server_site,\n    \
         ifNull(ifNull(client_subflows, server_subflows), 0) AS subflows, now64(3) AS version,\n    {sums}\n\
         FROM (SELECT *, client_site AS c_site, server_site AS s_site, assumeNotNull(ifNull(client_began_ns, server_began_ns)) AS began,\n        \
         ifNull(ifNull(client_sample_weight, server_sample_weight), 1) AS weight, client_active_uj + server_active_uj AS uj,\n        \
         ifNull(client_bytes_sent + client_bytes_received, server_bytes_sent + server_bytes_received) AS payload\n    \
         FROM {database}.pairs)\n\
         WHERE began >= toUnixTimestamp(toStartOfHour(now()) - INTERVAL {DAYS_BACK} DAY) * 1000000000\n\
         GROUP BY {GROUPS}"
    )
}
