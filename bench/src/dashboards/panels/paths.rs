// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which path carries what, how well, and whether the second one is worth it.

use crate::dashboards::panel::Draw::{Lines, Stack};
use crate::dashboards::panel::{Dashboard, panel};

pub(in crate::dashboards) const PATHS: Dashboard = Dashboard {
    name: "paths",
    title: "mpwatch / Paths and bottlenecks",
    about: "Which path carries what, how well, and is the second one worth it?",
    rows: &[
        (
            "Paths",
            &[
                panel(
                    "Sent by interface",
                    Stack,
                    "bps",
                    "Payload of all subflows by the interface they leave by, retransmissions included.",
                    &[(
                        "sum by (interface) (rate(mpwatch_interface_sent_bytes_total{$m}[$r])) * 8",
                        "{{interface}}",
                    )],
                ),
                panel(
                    "Share of interfaces",
                    Stack,
                    "percentunit",
                    "Part of what is sent that each interface carries: the path ratio.",
                    &[(
                        "sum by (interface) (rate(mpwatch_interface_sent_bytes_total{$m}[$r])) / on () group_left () sum(rate(mpwatch_interface_sent_bytes_total{$m}[$r]))",
                        "{{interface}}",
                    )],
                ),
                panel(
                    "Sent again by interface",
                    Lines,
                    "percentunit",
                    "Part of the payload that TCP sent again: loss on that path.",
                    &[(
                        "sum by (interface) (rate(mpwatch_interface_retransmitted_bytes_total{$m}[$r])) / sum by (interface) (rate(mpwatch_interface_sent_bytes_total{$m}[$r]))",
                        "{{interface}}",
                    )],
                ),
                panel(
                    "Reinjected",
                    Lines,
                    "bps",
                    "Payload that MPTCP sent again on another subflow: a path failed or was too slow.",
                    &[(
                        "sum by (instance) (rate(mpwatch_host_reinjected_bytes_total{$m}[$r])) * 8",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Round-trip time",
                    Lines,
                    "s",
                    "Of subflows with traffic, one sample each a snapshot.",
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
                    "From SYN to established, of all subflows.",
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
                    "First subflows and joined ones a second.",
                    &[("sum by (kind) (rate(mpwatch_host_subflows_opened_total{$m}[$r]))", "{{kind}}")],
                ),
                panel(
                    "Ended",
                    Stack,
                    "cps",
                    "Subflows that ended, by reason; fin is the ordinary one.",
                    &[("sum by (reason) (rate(mpwatch_host_subflows_closed_total{$m}[$r]))", "{{reason}}")],
                ),
                panel(
                    "Start of the second path",
                    Lines,
                    "s",
                    "From the opening of a connection to its first joined subflow: shorter flows never gain.",
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
            ],
        ),
        (
            "Bottlenecks",
            &[
                panel(
                    "Pairs of subflows by verdict",
                    Stack,
                    "short",
                    "Shared: the two wait in one queue and the second adds nothing. Disjoint: they have bottlenecks of their own.",
                    &[("sum by (verdict) (mpwatch_host_subflow_pairs{$m})", "{{verdict}}")],
                ),
                panel(
                    "Extra subflows over time",
                    Lines,
                    "short",
                    "Subflows beyond one a bottleneck.",
                    &[("sum by (instance) (mpwatch_host_extra_subflows{$m})", "{{instance}}")],
                ),
            ],
        ),
    ],
};
