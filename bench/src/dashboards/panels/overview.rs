// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether multipath works, and for whom.

use crate::dashboards::panel::Draw::{Lines, Stack, Stat};
use crate::dashboards::panel::{Dashboard, panel};

pub(in crate::dashboards) const OVERVIEW: Dashboard = Dashboard {
    name: "overview",
    title: "mpwatch / Overview",
    about: "Is multipath working, and for whom?",
    rows: &[
        (
            "Now",
            &[
                panel(
                    "Open connections",
                    Stat,
                    "short",
                    "MPTCP connections that are open.",
                    &[("sum(mpwatch_host_connections{$m})", "")],
                ),
                panel(
                    "Open subflows",
                    Stat,
                    "short",
                    "Subflows that are open; about two a connection means that both paths are in use.",
                    &[("sum(mpwatch_host_subflows{$m})", "")],
                ),
                panel(
                    "Fallen back",
                    Stat,
                    "short",
                    "Open connections that asked for MPTCP and go on as plain TCP.",
                    &[("sum(mpwatch_host_fallback_connections{$m})", "")],
                ),
                panel(
                    "Extra subflows",
                    Stat,
                    "short",
                    "Subflows beyond one a bottleneck: they bring no throughput and cost energy.",
                    &[("sum(mpwatch_host_extra_subflows{$m})", "")],
                ),
            ],
        ),
        (
            "Traffic",
            &[
                panel(
                    "Payload sent",
                    Stack,
                    "bps",
                    "Payload that applications sent over MPTCP, each byte once.",
                    &[(
                        "sum by (instance) (rate(mpwatch_host_sent_bytes_total{$m}[$r])) * 8",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Payload received",
                    Stack,
                    "bps",
                    "Payload that applications were given.",
                    &[(
                        "sum by (instance) (rate(mpwatch_host_received_bytes_total{$m}[$r])) * 8",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Sent by peer",
                    Lines,
                    "bps",
                    "The ten peers that most is sent to; all smaller ones together are __other__.",
                    &[(
                        "topk(10, sum by (peer) (rate(mpwatch_peer_sent_bytes_total{$m}[$r])) * 8)",
                        "{{peer}}",
                    )],
                ),
                panel(
                    "Sent by control group",
                    Lines,
                    "bps",
                    "The ten services or containers that send most.",
                    &[(
                        "topk(10, sum by (cgroup) (rate(mpwatch_cgroup_sent_bytes_total{$m}[$r])) * 8)",
                        "{{cgroup}}",
                    )],
                ),
            ],
        ),
        (
            "Connections",
            &[
                panel(
                    "Opened and closed",
                    Lines,
                    "cps",
                    "Connections a second by the role of this host.",
                    &[
                        (
                            "sum by (role) (rate(mpwatch_host_connections_opened_total{$m}[$r]))",
                            "opened, {{role}}",
                        ),
                        (
                            "sum by (role) (rate(mpwatch_host_connections_closed_total{$m}[$r]))",
                            "closed, {{role}}",
                        ),
                    ],
                ),
                panel(
                    "Fallbacks",
                    Stack,
                    "cps",
                    "Connections a second that went on as plain TCP, by reason. A middlebox on a path shows here.",
                    &[("sum by (reason) (rate(mpwatch_host_fallbacks_total{$m}[$r]))", "{{reason}}")],
                ),
                panel(
                    "Duration of connections",
                    Lines,
                    "s",
                    "Of connections that closed.",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(mpwatch_host_flow_duration_seconds_bucket{$m}[$r])))",
                            "median",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(mpwatch_host_flow_duration_seconds_bucket{$m}[$r])))",
                            "99th percentile",
                        ),
                    ],
                ),
                panel(
                    "Size of connections",
                    Lines,
                    "decbytes",
                    "Payload in both directions, of connections that closed.",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(mpwatch_host_flow_size_bytes_bucket{$m}[$r])))",
                            "median",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(mpwatch_host_flow_size_bytes_bucket{$m}[$r])))",
                            "99th percentile",
                        ),
                    ],
                ),
            ],
        ),
    ],
};
