// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the network path of flows costs.

use crate::dashboards::panel::Draw::{Lines, Stack, Table};
use crate::dashboards::panel::{Dashboard, panel};

pub(in crate::dashboards) const ENERGY: Dashboard = Dashboard {
    name: "energy",
    title: "mpwatch / Energy",
    about: "What the network path of flows costs on this machine. Zones of one source do not overlap; docs/energy.md tells how joules come about.",
    rows: &[
        (
            "The machine",
            &[
                panel(
                    "Power by zone",
                    Stack,
                    "watt",
                    "What the energy counters say.",
                    &[("sum by (zone) (rate(mpwatch_zone_joules_total{$m}[$r]))", "{{zone}}")],
                ),
                panel(
                    "Where it went",
                    Stack,
                    "watt",
                    "Parts of all zones; together they are the whole, to the microjoule.",
                    &[("sum by (part) (rate(mpwatch_zone_part_joules_total{$m}[$r]))", "{{part}}")],
                ),
                panel(
                    "CPU time by account",
                    Stack,
                    "short",
                    "CPUs busy with each; the accounts sum to the number of CPUs.",
                    &[(
                        "sum by (account) (rate(mpwatch_host_cpu_account_seconds_total{$m}[$r]))",
                        "{{account}}",
                    )],
                ),
                panel(
                    "Source",
                    Table,
                    "short",
                    "Where joules and idle power come from. Joules of a model are estimates.",
                    &[("mpwatch_energy_info{$m}", "")],
                ),
            ],
        ),
        (
            "Flows",
            &[
                panel(
                    "Power of all flows",
                    Lines,
                    "watt",
                    "Above idle, with the least and the most that it may be.",
                    &[
                        ("sum(rate(mpwatch_host_active_joules_total{$m}[$r]))", "above idle"),
                        ("sum(rate(mpwatch_host_active_low_joules_total{$m}[$r]))", "at least"),
                        ("sum(rate(mpwatch_host_active_high_joules_total{$m}[$r]))", "at most"),
                    ],
                ),
                panel(
                    "Joules a gigabyte",
                    Lines,
                    "short",
                    "Energy above idle for each 10^9 bytes of payload, both directions.",
                    &[(
                        "sum by (instance) (rate(mpwatch_host_active_joules_total{$m}[$r])) / (sum by (instance) (rate(mpwatch_host_sent_bytes_total{$m}[$r])) + sum by (instance) (rate(mpwatch_host_received_bytes_total{$m}[$r]))) * 1e9",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Energy of a connection",
                    Lines,
                    "joule",
                    "Above idle, of connections that closed.",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(mpwatch_host_flow_active_joules_bucket{$m}[$r])))",
                            "median",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(mpwatch_host_flow_active_joules_bucket{$m}[$r])))",
                            "99th percentile",
                        ),
                    ],
                ),
                panel(
                    "Power by interface",
                    Stack,
                    "watt",
                    "Above idle, of the subflows that leave by each.",
                    &[(
                        "sum by (interface) (rate(mpwatch_interface_active_joules_total{$m}[$r]))",
                        "{{interface}}",
                    )],
                ),
                panel(
                    "Power by control group",
                    Lines,
                    "watt",
                    "The ten services or containers whose flows cost most.",
                    &[(
                        "topk(10, sum by (cgroup) (rate(mpwatch_cgroup_active_joules_total{$m}[$r])))",
                        "{{cgroup}}",
                    )],
                ),
                panel(
                    "Power by peer",
                    Lines,
                    "watt",
                    "The ten peers whose flows cost most.",
                    &[(
                        "topk(10, sum by (peer) (rate(mpwatch_peer_active_joules_total{$m}[$r])))",
                        "{{peer}}",
                    )],
                ),
            ],
        ),
        (
            "Trust",
            &[
                panel(
                    "Not conserved",
                    Lines,
                    "joule",
                    "Energy of the zones less all parts: zero but for rounding, or mpwatch has a bug.",
                    &[(
                        "sum by (instance) (mpwatch_zone_joules_total{$m}) - sum by (instance) (mpwatch_zone_part_joules_total{$m})",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Time without energy",
                    Lines,
                    "percentunit",
                    "Part of the time of which the energy is not known; it is in no total.",
                    &[("sum by (zone) (rate(mpwatch_zone_lost_seconds_total{$m}[$r]))", "{{zone}}")],
                ),
            ],
        ),
    ],
};
