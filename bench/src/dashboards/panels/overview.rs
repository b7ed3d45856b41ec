// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dashboard that shows whether multipath works, and which peers and services use it.

use crate::dashboards::panel::Draw::{Lines, Stack, Stat};
use crate::dashboards::panel::{Dashboard, Source, panel};

pub(in crate::dashboards) const OVERVIEW: Dashboard = Dashboard {
    name: "overview",
    title: "mpwatch / Overview",
    about: "Is multipath working, and which hosts, peers and services use it?",
    source: Source::Prometheus,
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
                    "Subflows that are open. About two per connection means that both paths are used.",
                    &[("sum(mpwatch_host_subflows{$m})", "")],
                ),
                panel(
                    "Fallen back",
                    Stat,
                    "short",
                    "Open connections that requested MPTCP and continue as plain TCP.",
                    &[("sum(mpwatch_host_fallback_connections{$m})", "")],
                ),
                panel(
                    "Causes",
                    Stat,
                    "short",
                    "Open connections with one path or a fallback, by the cause that `mpwatch why` gives.",
                    &[("sum by (cause) (mpwatch_findings{$m}) > 0", "{{cause}}")],
                ),
                panel(
                    "Extra subflows",
                    Stat,
                    "short",
                    "Subflows beyond one per bottleneck. They add no throughput and cost energy.",
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
                    "Payload that applications sent over MPTCP, without retransmissions.",
                    &[(
                        "sum by (instance) (rate(mpwatch_host_sent_bytes_total{$m}[$r])) * 8",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Payload received",
                    Stack,
                    "bps",
                    "Payload delivered to applications.",
                    &[(
                        "sum by (instance) (rate(mpwatch_host_received_bytes_total{$m}[$r])) * 8",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Sent by peer",
                    Lines,
                    "bps",
                    "The ten peers that receive the most. __other__ is the sum of peers without a separate series.",
                    &[(
                        "topk(10, sum by (peer) (rate(mpwatch_peer_sent_bytes_total{$m}[$r])) * 8)",
                        "{{peer}}",
                    )],
                ),
                panel(
                    "Sent by control group",
                    Lines,
                    "bps",
                    "The ten services or containers that send the most.",
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
                    "Connections per second, by the role of this host.",
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
                    "Connections per second that fell back to plain TCP, by reason. A middlebox on a path causes fallbacks.",
                    &[("sum by (reason) (rate(mpwatch_host_fallbacks_total{$m}[$r]))", "{{reason}}")],
                ),
                panel(
                    "Duration of connections",
                    Lines,
                    "s",
                    "Duration of closed connections.",
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
                    "Payload of closed connections in both directions.",
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
