// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of the network stack for flows.

use crate::dashboards::panel::Draw::{Lines, Stack, Table};
use crate::dashboards::panel::{Dashboard, Source, panel};

pub(in crate::dashboards) const ENERGY: Dashboard = Dashboard {
    name: "energy",
    title: "mpwatch / Energy",
    about: "Energy of the network stack of this machine, by flow. Zones of one source do not overlap. docs/energy.md explains how energy is attributed.",
    source: Source::Prometheus,
    rows: &[
        (
            "Machine",
            &[
                panel(
                    "Power by zone",
                    Stack,
                    "watt",
                    "Power by the energy counters of the machine.",
                    &[("sum by (zone) (rate(mpwatch_zone_joules_total{$m}[$r]))", "{{zone}}")],
                ),
                panel(
                    "Power by part",
                    Stack,
                    "watt",
                    "The power of all zones divided into parts. The parts sum to the whole, to the microjoule.",
                    &[("sum by (part) (rate(mpwatch_zone_part_joules_total{$m}[$r]))", "{{part}}")],
                ),
                panel(
                    "CPU time by account",
                    Stack,
                    "short",
                    "Number of CPUs used by each account. The accounts sum to the number of CPUs.",
                    &[(
                        "sum by (account) (rate(mpwatch_host_cpu_account_seconds_total{$m}[$r]))",
                        "{{account}}",
                    )],
                ),
                panel(
                    "Energy source",
                    Table,
                    "short",
                    "Source of the energy values and of the idle power. Values from a model are estimates.",
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
                    "Power above idle, with its lower and upper bound.",
                    &[
                        ("sum(rate(mpwatch_host_active_joules_total{$m}[$r]))", "above idle"),
                        ("sum(rate(mpwatch_host_active_low_joules_total{$m}[$r]))", "lower bound"),
                        ("sum(rate(mpwatch_host_active_high_joules_total{$m}[$r]))", "upper bound"),
                    ],
                ),
                panel(
                    "Joules per gigabyte",
                    Lines,
                    "short",
                    "Energy above idle per 10^9 bytes of payload, both directions.",
                    &[(
                        "sum by (instance) (rate(mpwatch_host_active_joules_total{$m}[$r])) / (sum by (instance) (rate(mpwatch_host_sent_bytes_total{$m}[$r])) + sum by (instance) (rate(mpwatch_host_received_bytes_total{$m}[$r]))) * 1e9",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Energy per connection",
                    Lines,
                    "joule",
                    "Energy above idle of closed connections.",
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
                    "Power above idle of the subflows, by outgoing interface.",
                    &[(
                        "sum by (interface) (rate(mpwatch_interface_active_joules_total{$m}[$r]))",
                        "{{interface}}",
                    )],
                ),
                panel(
                    "Power by control group",
                    Lines,
                    "watt",
                    "The ten services or containers whose flows cost the most.",
                    &[(
                        "topk(10, sum by (cgroup) (rate(mpwatch_cgroup_active_joules_total{$m}[$r])))",
                        "{{cgroup}}",
                    )],
                ),
                panel(
                    "Power by peer",
                    Lines,
                    "watt",
                    "The ten peers whose flows cost the most.",
                    &[(
                        "topk(10, sum by (peer) (rate(mpwatch_peer_active_joules_total{$m}[$r])))",
                        "{{peer}}",
                    )],
                ),
            ],
        ),
        (
            "Consistency",
            &[
                panel(
                    "Conservation error",
                    Lines,
                    "joule",
                    "Energy of the zones minus the sum of their parts. Anything but rounding is a bug of mpwatch.",
                    &[(
                        "sum by (instance) (mpwatch_zone_joules_total{$m}) - sum by (instance) (mpwatch_zone_part_joules_total{$m})",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Time without energy values",
                    Lines,
                    "percentunit",
                    "Share of the time for which energy is unknown. No total includes it.",
                    &[("sum by (zone) (rate(mpwatch_zone_lost_seconds_total{$m}[$r]))", "{{zone}}")],
                ),
            ],
        ),
    ],
};
