// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dashboard of the largest connections and their subflows, which have separate series (`metrics.top_flows`).

use crate::dashboards::panel::Draw::{Lines, Stat, Table};
use crate::dashboards::panel::{Dashboard, Source, panel};

pub(in crate::dashboards) const FLOWS: Dashboard = Dashboard {
    name: "flows",
    title: "mpwatch / Flows",
    about: "What do the largest connections and their subflows do? Empty unless metrics.top_flows is set. A closed flow stays for five minutes.",
    source: Source::Prometheus,
    rows: &[
        (
            "Now",
            &[
                panel(
                    "Connections with separate series",
                    Stat,
                    "short",
                    "Number of connections on this dashboard. The key metrics.top_flows limits it.",
                    &[("count(mpwatch_connection_info{$f})", "")],
                ),
                panel(
                    "Share of all payload sent",
                    Stat,
                    "percentunit",
                    "Share of the sent payload of all connections that these connections sent. The rest is in the series __other__.",
                    &[(
                        "sum(rate(mpwatch_connection_sent_bytes_total{$m}[$r]) * on (job, instance, connection) mpwatch_connection_info{$m}) / sum(rate(mpwatch_connection_sent_bytes_total{$m}[$r]))",
                        "",
                    )],
                ),
                panel(
                    "Failed paths",
                    Stat,
                    "short",
                    "Failures of paths of these connections in the displayed range.",
                    &[("sum(increase(mpwatch_subflow_path_failures_total{$f}[$__range]))", "")],
                ),
                panel(
                    "Outages",
                    Stat,
                    "s",
                    "Time in the displayed range in which one of these connections made no progress on any path.",
                    &[("sum(increase(mpwatch_connection_outage_seconds_total{$f}[$__range]))", "")],
                ),
            ],
        ),
        (
            "Connections",
            &[
                panel(
                    "Sent",
                    Lines,
                    "bps",
                    "Payload that the application sent, each byte once.",
                    &[("rate(mpwatch_connection_sent_bytes_total{$f}[$r]) * 8", "{{connection}}")],
                ),
                panel(
                    "Received",
                    Lines,
                    "bps",
                    "Payload delivered to the application.",
                    &[("rate(mpwatch_connection_received_bytes_total{$f}[$r]) * 8", "{{connection}}")],
                ),
                panel(
                    "Reinjected",
                    Lines,
                    "bps",
                    "Payload that MPTCP sent on a second subflow because the first subflow failed or was too slow.",
                    &[("rate(mpwatch_connection_reinjected_bytes_total{$f}[$r]) * 8", "{{connection}}")],
                ),
                panel(
                    "Overhead",
                    Lines,
                    "percentunit",
                    "Estimated share of the wire bytes that was not new payload: headers, retransmissions, reinjections.",
                    &[("mpwatch_connection_excess_ratio{$f}", "{{connection}}")],
                ),
                panel(
                    "Power",
                    Lines,
                    "watt",
                    "Power above idle of the network stack of this host for each connection.",
                    &[("rate(mpwatch_connection_active_joules_total{$f}[$r])", "{{connection}}")],
                ),
                panel(
                    "Joules per gigabyte",
                    Lines,
                    "short",
                    "Energy above idle per 10^9 bytes of observed payload in both directions.",
                    &[("mpwatch_connection_joules_per_gigabyte{$f}", "{{connection}}")],
                ),
                panel(
                    "Addresses and processes",
                    Table,
                    "short",
                    "Addresses, process and namespace of each connection.",
                    &[("mpwatch_connection_info{$f}", "")],
                ),
            ],
        ),
        (
            "Subflows",
            &[
                panel(
                    "Sent by subflow",
                    Lines,
                    "bps",
                    "Payload that each subflow sent, retransmissions included.",
                    &[("rate(mpwatch_subflow_sent_bytes_total{$f}[$r]) * 8", "{{connection}} {{subflow}}")],
                ),
                panel(
                    "Received by subflow",
                    Lines,
                    "bps",
                    "Payload that each subflow received.",
                    &[(
                        "rate(mpwatch_subflow_received_bytes_total{$f}[$r]) * 8",
                        "{{connection}} {{subflow}}",
                    )],
                ),
                panel(
                    "Round-trip time",
                    Lines,
                    "s",
                    "Smoothed round-trip time.",
                    &[("mpwatch_subflow_srtt_seconds{$f}", "{{connection}} {{subflow}}")],
                ),
                panel(
                    "Retransmitted",
                    Lines,
                    "percentunit",
                    "Share of the payload sent that TCP retransmitted: loss on that path.",
                    &[(
                        "rate(mpwatch_subflow_retransmitted_bytes_total{$f}[$r]) / rate(mpwatch_subflow_sent_bytes_total{$f}[$r])",
                        "{{connection}} {{subflow}}",
                    )],
                ),
                panel(
                    "Congestion window",
                    Lines,
                    "short",
                    "Congestion window, in segments.",
                    &[("mpwatch_subflow_congestion_window_segments{$f}", "{{connection}} {{subflow}}")],
                ),
                panel(
                    "Power by subflow",
                    Lines,
                    "watt",
                    "Power above idle of each subflow on this host.",
                    &[("rate(mpwatch_subflow_active_joules_total{$f}[$r])", "{{connection}} {{subflow}}")],
                ),
                panel(
                    "Paths of the subflows",
                    Table,
                    "short",
                    "Addresses and outgoing interface of each subflow.",
                    &[("mpwatch_subflow_info{$f}", "")],
                ),
            ],
        ),
    ],
};
