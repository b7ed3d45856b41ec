// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether mpwatch itself works, what it loses and what it costs.

use crate::dashboards::panel::Draw::{Lines, Stat, Table};
use crate::dashboards::panel::{Dashboard, panel};

pub(in crate::dashboards) const HEALTH: Dashboard = Dashboard {
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
