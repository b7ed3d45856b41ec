// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many hosts: the queries of dashboards/clickhouse/queries as tables, and sums over time.

use crate::dashboards::panel::Draw::{Lines, Stack, Table};
use crate::dashboards::panel::{Dashboard, Source, panel};

/// A query of dashboards/clickhouse/queries, which has no legend.
macro_rules! file {
    ($name:literal) => {
        &[(include_str!(concat!("../../../../dashboards/clickhouse/queries/", $name, ".sql")), "")]
    };
}

/// Sums of a value over the connections of each interval, divided by its length in seconds.
macro_rules! per_second {
    ($label:literal, $value:literal, $condition:literal) => {
        concat!(
            "SELECT fromUnixTimestamp64Milli(intDiv(ifNull(client_began_ns, server_began_ns), $__interval_ms * 1000000) * $__interval_ms) AS time,\n",
            "       ", $label, " AS series,\n",
            "       sum(", $value, " * ifNull(ifNull(client_sample_weight, server_sample_weight), 1)) * 1000 / $__interval_ms AS value\n",
            "FROM mpwatch.pairs\n",
            "WHERE ifNull(client_began_ns, server_began_ns) BETWEEN $__from * 1000000 AND $__to * 1000000\n",
            "  AND ", $condition, "\n",
            "GROUP BY time, series\n",
            "ORDER BY time, series"
        )
    };
}

pub(in crate::dashboards) const FLEET: Dashboard = Dashboard {
    name: "fleet",
    title: "mpwatch / Fleet",
    about: "Connections of many hosts, both ends in one row: is multipath worth it, and where does it waste energy?",
    source: Source::ClickHouse,
    rows: &[
        (
            "Over time",
            &[
                panel(
                    "Connections",
                    Stack,
                    "cps",
                    "Connections opened per second, by the ends that were reported.",
                    &[(
                        per_second!(
                            "transform(ends, [1, 2, 3], ['client only', 'server only', 'both ends'], '')",
                            "1",
                            "1"
                        ),
                        "",
                    )],
                ),
                panel(
                    "Payload",
                    Lines,
                    "Bps",
                    "Payload of the connections opened in an interval, by the client's host. It counts when they are opened, not when it is sent.",
                    &[(
                        per_second!(
                            "client_host",
                            "(client_bytes_sent + client_bytes_received)",
                            "client_id IS NOT NULL"
                        ),
                        "",
                    )],
                ),
                panel(
                    "Energy",
                    Stack,
                    "watt",
                    "Energy above idle of the network stacks of both ends, by number of subflows, where both are known.",
                    &[(
                        per_second!(
                            "concat(toString(client_subflows), ' subflows')",
                            "(client_active_uj + server_active_uj) / 1e6",
                            "ends = 3 AND client_active_uj IS NOT NULL AND server_active_uj IS NOT NULL"
                        ),
                        "",
                    )],
                ),
                panel(
                    "Wasted energy",
                    Lines,
                    "watt",
                    "Power of extra subflows, which share a bottleneck with another subflow of their connection. Estimated from their share of the subflows.",
                    &[(
                        per_second!(
                            "concat(client_host, ' - ', server_host)",
                            "(client_active_uj + server_active_uj) * sender_extra_subflows / client_subflows / 1e6",
                            "ends = 3 AND sender_extra_subflows > 0 AND client_subflows > 0 AND client_active_uj IS NOT NULL AND server_active_uj IS NOT NULL"
                        ),
                        "",
                    )],
                ),
            ],
        ),
        (
            "Is multipath worth it?",
            &[
                panel(
                    "Waste by pair of sites",
                    Table,
                    "short",
                    "Pairs of sites that spend energy on extra subflows.",
                    file!("waste_by_pair_of_sites"),
                ),
                panel(
                    "Energy by number of subflows",
                    Table,
                    "short",
                    "Joules per gigabyte of both ends together.",
                    file!("energy_by_subflows"),
                ),
                panel(
                    "Shared bottlenecks",
                    Table,
                    "short",
                    "Interfaces of a host whose subflows share a bottleneck.",
                    file!("shared_bottlenecks"),
                ),
                panel(
                    "Fairness",
                    Table,
                    "short",
                    "How evenly subflows share the payload. Jain's index is 1 if all carry the same.",
                    file!("fairness"),
                ),
            ],
        ),
        (
            "Paths",
            &[
                panel(
                    "Failures by path",
                    Table,
                    "short",
                    "Subflows that ended with a timeout or a reset, could not reach their peer, or got no more acknowledgements.",
                    file!("failures_by_path"),
                ),
                panel(
                    "Retransmissions",
                    Table,
                    "short",
                    "Retransmitted bytes as a share of the bytes sent.",
                    file!("retransmissions"),
                ),
                panel(
                    "RTT from both ends",
                    Table,
                    "short",
                    "The median RTT of each path as both ends measured it.",
                    file!("rtt_from_both_ends"),
                ),
                panel(
                    "Fallbacks",
                    Table,
                    "short",
                    "Where MPTCP falls back to TCP, and why.",
                    file!("fallbacks"),
                ),
            ],
        ),
        (
            "Traffic",
            &[
                panel("Top talkers", Table, "short", "Who sends most.", file!("top_talkers")),
                panel(
                    "Missing ends",
                    Table,
                    "short",
                    "Addresses of hosts whose end of a connection was not reported.",
                    file!("missing_ends"),
                ),
            ],
        ),
    ],
};
