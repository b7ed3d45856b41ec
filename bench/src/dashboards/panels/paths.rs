// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dashboard of traffic, RTT and loss of each path, and of second paths that add no throughput.

use crate::dashboards::panel::Draw::{Lines, Stack};
use crate::dashboards::panel::{Dashboard, Source, panel};

pub(in crate::dashboards) const PATHS: Dashboard = Dashboard {
    name: "paths",
    title: "mpwatch / Paths and bottlenecks",
    about: "What does each path carry, at which round-trip time and loss, and does a second path add throughput?",
    source: Source::Prometheus,
    rows: &[
        (
            "Paths",
            &[
                panel(
                    "Sent by interface",
                    Stack,
                    "bps",
                    "Payload of all subflows by outgoing interface, including retransmissions.",
                    &[(
                        "sum by (interface) (rate(mpwatch_interface_sent_bytes_total{$m}[$r])) * 8",
                        "{{interface}}",
                    )],
                ),
                panel(
                    "Share by interface",
                    Stack,
                    "percentunit",
                    "Share of the sent payload that each interface carries (path ratio).",
                    &[(
                        "sum by (interface) (rate(mpwatch_interface_sent_bytes_total{$m}[$r])) / on () group_left () sum(rate(mpwatch_interface_sent_bytes_total{$m}[$r]))",
                        "{{interface}}",
                    )],
                ),
                panel(
                    "Retransmitted by interface",
                    Lines,
                    "percentunit",
                    "Share of the payload that TCP retransmitted: loss on that path.",
                    &[(
                        "sum by (interface) (rate(mpwatch_interface_retransmitted_bytes_total{$m}[$r])) / sum by (interface) (rate(mpwatch_interface_sent_bytes_total{$m}[$r]))",
                        "{{interface}}",
                    )],
                ),
                panel(
                    "Reinjected",
                    Lines,
                    "bps",
                    "Payload that MPTCP sent on a second subflow because the first subflow failed or was too slow.",
                    &[(
                        "sum by (instance) (rate(mpwatch_host_reinjected_bytes_total{$m}[$r])) * 8",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Failed paths by interface",
                    Lines,
                    "short",
                    "Open subflows that get no acknowledgements, and path failures in the period.",
                    &[
                        ("sum by (interface) (mpwatch_interface_stale_subflows{$m})", "{{interface}}: open"),
                        (
                            "sum by (interface) (increase(mpwatch_interface_path_failures_total{$m}[$r]))",
                            "{{interface}}: failures",
                        ),
                    ],
                ),
                panel(
                    "Round-trip time by interface",
                    Lines,
                    "s",
                    "Round-trip time of subflows with traffic by interface: one value per subflow and snapshot.",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (interface, le) (rate(mpwatch_interface_rtt_seconds_bucket{$m}[$r])))",
                            "{{interface}}: median",
                        ),
                        (
                            "histogram_quantile(0.95, sum by (interface, le) (rate(mpwatch_interface_rtt_seconds_bucket{$m}[$r])))",
                            "{{interface}}: 95 %",
                        ),
                    ],
                ),
                panel(
                    "Outages",
                    Lines,
                    "s",
                    "Time in which connections made no progress on any path, although data was in flight.",
                    &[(
                        "sum by (instance) (increase(mpwatch_host_outage_seconds_total{$m}[$r]))",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Round-trip time",
                    Lines,
                    "s",
                    "Round-trip time of subflows with traffic: one value per subflow and snapshot.",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(mpwatch_host_rtt_seconds_bucket{$m}[$r])))",
                            "median",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(mpwatch_host_rtt_seconds_bucket{$m}[$r])))",
                            "99th percentile",
                        ),
                    ],
                ),
                panel(
                    "Handshake",
                    Lines,
                    "s",
                    "Time from SYN to established, of all subflows.",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(mpwatch_host_handshake_seconds_bucket{$m}[$r])))",
                            "median",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(mpwatch_host_handshake_seconds_bucket{$m}[$r])))",
                            "99th percentile",
                        ),
                    ],
                ),
            ],
        ),
        (
            "Subflows",
            &[
                panel(
                    "Opened",
                    Lines,
                    "cps",
                    "Initial and joined subflows per second.",
                    &[("sum by (kind) (rate(mpwatch_host_subflows_opened_total{$m}[$r]))", "{{kind}}")],
                ),
                panel(
                    "Closed",
                    Stack,
                    "cps",
                    "Closed subflows per second, by reason. fin is a normal close.",
                    &[("sum by (reason) (rate(mpwatch_host_subflows_closed_total{$m}[$r]))", "{{reason}}")],
                ),
                panel(
                    "Time until the second path",
                    Lines,
                    "s",
                    "Time from the opening of a connection to its first joined subflow. Shorter connections never use a second path.",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(mpwatch_host_second_path_after_seconds_bucket{$m}[$r])))",
                            "median",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(mpwatch_host_second_path_after_seconds_bucket{$m}[$r])))",
                            "99th percentile",
                        ),
                    ],
                ),
                panel(
                    "Joins by interface",
                    Stack,
                    "cps",
                    "Joins (MP_JOIN) per second, by interface and outcome. Only established joins are paths.",
                    &[(
                        "sum by (interface, result) (rate(mpwatch_interface_joins_total{$m}[$r]))",
                        "{{interface}} {{result}}",
                    )],
                ),
            ],
        ),
        (
            "Bottlenecks",
            &[
                panel(
                    "Pairs of subflows by verdict",
                    Stack,
                    "short",
                    "Shared: both subflows wait in one queue, and the second subflow adds no throughput. Disjoint: each subflow has its own bottleneck.",
                    &[("sum by (verdict) (mpwatch_host_subflow_pairs{$m})", "{{verdict}}")],
                ),
                panel(
                    "Extra subflows over time",
                    Lines,
                    "short",
                    "Subflows beyond one per bottleneck.",
                    &[("sum by (instance) (mpwatch_host_extra_subflows{$m})", "{{instance}}")],
                ),
            ],
        ),
    ],
};
