// SPDX-License-Identifier: MIT OR Apache-2.0
//! The panels.

use super::Draw::{Lines, Stack, Stat, Table};
use super::{Dashboard, Draw, Panel};

const fn panel(
    title: &'static str,
    draw: Draw,
    unit: &'static str,
    about: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, unit, draw, queries }
}

pub(super) const OVERVIEW: Dashboard = Dashboard {
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

pub(super) const PATHS: Dashboard = Dashboard {
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

pub(super) const ENERGY: Dashboard = Dashboard {
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

pub(super) const HEALTH: Dashboard = Dashboard {
    name: "health",
    title: "mpwatch / Agent health",
    about: "Does mpwatch itself work, what does it lose, what does it cost?",
    rows: &[
        (
            "Now",
            &[
                panel(
                    "Answering",
                    Stat,
                    "short",
                    "Daemons that Prometheus can scrape.",
                    &[("sum(up{$m})", "")],
                ),
                panel(
                    "Hooks missing",
                    Stat,
                    "short",
                    "Kernel hooks or fields that are not there; what they feed is not known. See `mpwatch doctor`.",
                    &[("count(mpwatch_host_missing_hook{$m}) or vector(0)", "")],
                ),
                panel(
                    "Records lost",
                    Stat,
                    "short",
                    "Final records lost in the range shown; those flows end with their last sample.",
                    &[("sum(increase(mpwatch_loss_records_total{$m}[$__range]))", "")],
                ),
                panel(
                    "Configuration in force",
                    Stat,
                    "bool_yes_no",
                    "No: the latest file was bad, and the one before it is in force.",
                    &[
                        ("min(mpwatch_agent_config_last_reload_successful{$m})", ""),
                        ("min(mpwatch_agent_web_config_last_reload_successful{$m})", ""),
                    ],
                ),
            ],
        ),
        (
            "What it loses",
            &[
                panel(
                    "Losses",
                    Lines,
                    "cps",
                    "What is lost for good, by counter; docs/runbook.md says what to do.",
                    &[
                        ("sum(rate(mpwatch_loss_records_total{$m}[$r]))", "final records"),
                        ("sum(rate(mpwatch_loss_storage_failed_total{$m}[$r]))", "sockets not traced"),
                        ("sum(rate(mpwatch_loss_ledger_full_total{$m}[$r]))", "sockets without CPU time"),
                        ("sum(rate(mpwatch_loss_vanished_total{$m}[$r]))", "flows that vanished"),
                        ("sum(rate(mpwatch_loss_decode_errors_total{$m}[$r]))", "records not understood"),
                        ("sum(rate(mpwatch_loss_store_flows_total{$m}[$r]))", "flows not stored"),
                        ("sum(rate(mpwatch_loss_store_snapshots_total{$m}[$r]))", "snapshots not stored"),
                        ("sum(rate(mpwatch_loss_sample_points_total{$m}[$r]))", "points of samples"),
                    ],
                ),
                panel(
                    "Kernel records",
                    Lines,
                    "cps",
                    "Final records that the kernel side made, and those that arrived: one line.",
                    &[
                        ("sum(rate(mpwatch_kernel_records_total{$m}[$r]))", "made"),
                        ("sum(rate(mpwatch_kernel_records_received_total{$m}[$r]))", "arrived"),
                    ],
                ),
                panel(
                    "Frames and clients dropped",
                    Lines,
                    "cps",
                    "What slow readers of the socket lost, and clients that were let go.",
                    &[
                        ("sum(rate(mpwatch_agent_socket_frames_dropped_total{$m}[$r]))", "frames"),
                        ("sum(rate(mpwatch_agent_clients_refused_total{$m}[$r]))", "clients"),
                    ],
                ),
                panel(
                    "Series merged",
                    Lines,
                    "cps",
                    "Label values that gave up their series to __other__.",
                    &[(
                        "sum by (instance) (rate(mpwatch_agent_series_merged_total{$m}[$r]))",
                        "{{instance}}",
                    )],
                ),
            ],
        ),
        (
            "What it costs",
            &[
                panel(
                    "CPU",
                    Lines,
                    "percentunit",
                    "Of one CPU, by the daemon itself; what its programs take in the kernel is in Self of the accounts.",
                    &[("sum by (instance) (rate(process_cpu_seconds_total{$m}[$r]))", "{{instance}}")],
                ),
                panel(
                    "Memory",
                    Lines,
                    "bytes",
                    "Resident memory of the daemon.",
                    &[("max by (instance) (process_resident_memory_bytes{$m})", "{{instance}}")],
                ),
                panel(
                    "Work a snapshot",
                    Lines,
                    "percentunit",
                    "Part of the interval that a snapshot's work takes; near 1 it falls behind.",
                    &[(
                        "max by (instance) (mpwatch_agent_tick_work_seconds{$m} / mpwatch_agent_interval_seconds{$m})",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Scrape",
                    Lines,
                    "s",
                    "How long writing the metrics takes, as the daemon and as Prometheus see it.",
                    &[
                        ("max by (instance) (mpwatch_agent_scrape_seconds{$m})", "{{instance}}, written"),
                        ("max by (instance) (scrape_duration_seconds{$m})", "{{instance}}, scraped"),
                    ],
                ),
                panel(
                    "Open files",
                    Lines,
                    "short",
                    "Open file descriptors of the daemon.",
                    &[("max by (instance) (process_open_fds{$m})", "{{instance}}")],
                ),
                panel(
                    "Versions",
                    Table,
                    "short",
                    "Which version runs where.",
                    &[("mpwatch_build_info{$m}", ""), ("mpwatch_host_info{$m}", "")],
                ),
            ],
        ),
    ],
};
