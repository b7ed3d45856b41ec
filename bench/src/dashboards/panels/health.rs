// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dashboard of the health, losses and cost of mpwatch.

use crate::dashboards::panel::Draw::{Lines, Stat, Table};
use crate::dashboards::panel::{Dashboard, Source, panel};

pub(in crate::dashboards) const HEALTH: Dashboard = Dashboard {
    name: "health",
    title: "mpwatch / Agent health",
    about: "Does mpwatch work, what does it lose, and what does it cost?",
    source: Source::Prometheus,
    rows: &[
        (
            "Now",
            &[
                panel(
                    "Daemons up",
                    Stat,
                    "short",
                    "Number of daemons that Prometheus can scrape.",
                    &[("sum(up{$m})", "")],
                ),
                panel(
                    "Missing hooks",
                    Stat,
                    "short",
                    "Kernel hooks or fields that are missing. The values that need them are unknown. See `mpwatch doctor`.",
                    &[("count(mpwatch_host_missing_hook{$m}) or vector(0)", "")],
                ),
                panel(
                    "Records lost",
                    Stat,
                    "short",
                    "Final records lost in the displayed range. The counters of those flows end with their last sample.",
                    &[("sum(increase(mpwatch_loss_records_total{$m}[$__range]))", "")],
                ),
                panel(
                    "Configuration loaded",
                    Stat,
                    "bool_yes_no",
                    "No: the latest file is invalid, and the previous configuration is used.",
                    &[
                        ("min(mpwatch_agent_config_last_reload_successful{$m})", ""),
                        ("min(mpwatch_agent_web_config_last_reload_successful{$m})", ""),
                    ],
                ),
            ],
        ),
        (
            "Losses",
            &[
                panel(
                    "Lost data",
                    Lines,
                    "cps",
                    "Losses of mpwatch per second, by counter. docs/runbook.md explains what to do.",
                    &[
                        ("sum(rate(mpwatch_loss_records_total{$m}[$r]))", "final records"),
                        ("sum(rate(mpwatch_loss_storage_failed_total{$m}[$r]))", "no memory for a socket"),
                        ("sum(rate(mpwatch_loss_ledger_full_total{$m}[$r]))", "sockets without CPU time"),
                        ("sum(rate(mpwatch_loss_vanished_total{$m}[$r]))", "flows without a final record"),
                        ("sum(rate(mpwatch_loss_decode_errors_total{$m}[$r]))", "records not decoded"),
                        ("sum(rate(mpwatch_loss_ticks_failed_total{$m}[$r]))", "snapshots not read"),
                        ("sum(rate(mpwatch_loss_store_flows_total{$m}[$r]))", "flows not stored"),
                        ("sum(rate(mpwatch_loss_store_snapshots_total{$m}[$r]))", "snapshots not stored"),
                        ("sum(rate(mpwatch_loss_delay_samples_total{$m}[$r]))", "RTT samples"),
                    ],
                ),
                panel(
                    "Kernel records",
                    Lines,
                    "cps",
                    "Final records written in the kernel and received by the daemon. Both lines are the same unless records are lost.",
                    &[
                        ("sum(rate(mpwatch_kernel_records_total{$m}[$r]))", "written"),
                        ("sum(rate(mpwatch_kernel_records_received_total{$m}[$r]))", "received"),
                    ],
                ),
                panel(
                    "Dropped frames, refused clients",
                    Lines,
                    "cps",
                    "Frames that slow clients of the socket missed, and clients that were refused.",
                    &[
                        ("sum(rate(mpwatch_agent_socket_frames_dropped_total{$m}[$r]))", "frames"),
                        ("sum(rate(mpwatch_agent_clients_refused_total{$m}[$r]))", "clients"),
                    ],
                ),
                panel(
                    "Merged series",
                    Lines,
                    "cps",
                    "Label values whose series were merged into __other__.",
                    &[(
                        "sum by (instance) (rate(mpwatch_agent_series_merged_total{$m}[$r]))",
                        "{{instance}}",
                    )],
                ),
            ],
        ),
        (
            "Export",
            &[
                panel(
                    "Export lag",
                    Lines,
                    "s",
                    "Age of the connection that has waited longest for a target of the export. Without an export this row has no data.",
                    &[(
                        "max by (instance, target) (mpwatch_export_lag_seconds{$m})",
                        "{{instance}}, {{target}}",
                    )],
                ),
                panel(
                    "Waiting connections",
                    Lines,
                    "short",
                    "Connections in the database that a target has not confirmed.",
                    &[(
                        "sum by (instance, target) (mpwatch_export_waiting_connections{$m})",
                        "{{instance}}, {{target}}",
                    )],
                ),
                panel(
                    "Exported connections",
                    Lines,
                    "cps",
                    "Connections that targets have confirmed. A connection that changes afterwards counts again.",
                    &[("sum by (target) (rate(mpwatch_export_connections_total{$m}[$r]))", "{{target}}")],
                ),
                panel(
                    "Exported bytes",
                    Lines,
                    "Bps",
                    "Compressed size of the data that targets have confirmed.",
                    &[("sum by (target) (rate(mpwatch_export_sent_bytes_total{$m}[$r]))", "{{target}}")],
                ),
                panel(
                    "Failed requests",
                    Lines,
                    "cps",
                    "Failed requests, which are repeated.",
                    &[(
                        "sum by (instance, target) (rate(mpwatch_export_failures_total{$m}[$r]))",
                        "{{instance}}, {{target}}",
                    )],
                ),
                panel(
                    "Connections not exported",
                    Lines,
                    "short",
                    "Connections that the database deleted before a target confirmed them, and connections that a target rejected permanently.",
                    &[
                        (
                            "sum by (instance, target) (increase(mpwatch_export_lost_connections_total{$m}[$r]))",
                            "{{instance}}, {{target}}, lost",
                        ),
                        (
                            "sum by (instance, target) (increase(mpwatch_export_rejected_connections_total{$m}[$r]))",
                            "{{instance}}, {{target}}, rejected",
                        ),
                    ],
                ),
            ],
        ),
        (
            "Cost",
            &[
                panel(
                    "CPU",
                    Lines,
                    "percentunit",
                    "CPU time of the daemon as a share of one CPU. The time of its BPF programs is in the account self.",
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
                    "Work per snapshot",
                    Lines,
                    "percentunit",
                    "Share of the interval that the work for one snapshot takes. If the share is near 1, the daemon falls behind.",
                    &[(
                        "max by (instance) (mpwatch_agent_tick_work_seconds{$m} / mpwatch_agent_interval_seconds{$m})",
                        "{{instance}}",
                    )],
                ),
                panel(
                    "Scrape",
                    Lines,
                    "s",
                    "Time to write the metrics, measured by the daemon, and time of the whole scrape, measured by Prometheus.",
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
                    "Version of mpwatch and of the kernel on each host.",
                    &[(
                        "mpwatch_host_info{$m} * on(job, instance) group_left(version) mpwatch_build_info{$m}",
                        "",
                    )],
                ),
            ],
        ),
    ],
};
