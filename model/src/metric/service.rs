// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's own counters, and their rows of the metric table.

use jiff::Timestamp;

use crate::flow::elimination::EliminationStep;
use crate::metric::row::metrics;
use crate::unit::{Bytes, Nanos};

/// State of the daemon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Number of snapshots published since the daemon started.
    pub ticks: u64,
    /// Time between two snapshots, as configured.
    pub interval: Nanos,
    /// Time spent on the latest snapshot by the tracker and all outputs.
    pub tick_took: Nanos,
    /// Whether the latest reload of the configuration succeeded. After a failure, the previous configuration stays in force.
    pub config_ok: bool,
    /// Whether the latest reload of the web-config file and its certificates succeeded; `true` without such a file.
    pub web_config_ok: bool,
    /// When the configuration in force was loaded.
    pub config_read_at: Option<Timestamp>,
    /// Number of current clients of the Unix socket. `None`: there is no socket.
    pub readers: Option<u64>,
    /// Number of snapshots not sent to clients of the socket that were too slow. `None`: there is no socket.
    pub frames_dropped: Option<u64>,
    /// Number of clients of the socket or the web server that were refused, or disconnected while idle, because there were too many.
    pub clients_refused: u64,
    /// Number of scrapes. Scrapes within 100 ms of each other get the same text and are counted once.
    pub scrapes: u64,
    /// Time taken by the latest scrape. `None`: there was no scrape.
    pub scrape_took: Option<Nanos>,
    /// The daemon's process.
    pub process: DaemonProcess,
    /// Number of label values merged into `__other__`, because a label value with more payload replaced them, or because they expired.
    pub series_merged: u64,
    /// State of the store. `None`: there is no store.
    pub store: Option<StoreState>,
    /// Steps of elimination. `None`: elimination is off.
    pub elimination: Option<EliminationCounts>,
    /// The targets to which connections are exported.
    pub exports: Vec<ExportState>,
}

/// State of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportState {
    /// Kind of the target, the value of the label `target`.
    pub target: &'static str,
    /// Number of connections that the target has confirmed. A connection that is resent after a change counts again.
    pub connections: u64,
    /// Compressed size of the confirmed requests.
    pub sent: Bytes,
    /// Number of requests that failed and are repeated.
    pub failures: u64,
    /// Number of connections that the target has rejected permanently.
    pub rejected: u64,
    /// Number of connections that retention deleted before the target confirmed them. `None`: the database was not read yet.
    pub lost: Option<u64>,
    /// Number of connections that the target has not confirmed. `None`: the database was not read yet.
    pub waiting: Option<u64>,
    /// Time since the close or last record of the connection that has waited longest; 0 if none waits. `None`: the database was not read yet.
    pub lag: Option<Nanos>,
}

/// Steps of elimination since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EliminationCounts {
    /// Number of subflows that a dry run would have removed.
    pub planned: u64,
    /// Number of subflows removed.
    pub removed: u64,
    /// Number of removals, and of requests to end a backup role, that the kernel refused.
    pub failed: u64,
    /// Number of connections left alone because their throughput dropped.
    pub left_alone: u64,
}

impl EliminationCounts {
    /// Adds a step to the counts.
    pub fn add(&mut self, step: &EliminationStep) {
        match step {
            EliminationStep::Planned(_) => self.planned += 1,
            EliminationStep::Removed(_) => self.removed += 1,
            EliminationStep::Failed { .. } | EliminationStep::UndoFailed { .. } => self.failed += 1,
            EliminationStep::LeftAlone(_) => self.left_alone += 1,
            EliminationStep::Confirmed(_) | EliminationStep::Undone { .. } => {}
        }
    }
}

/// State of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreState {
    /// Whether writing is suspended.
    pub paused: bool,
    /// Number of connections written. A connection that is updated counts again.
    pub written: u64,
    /// Number of connections deleted by retention (age and size limits).
    pub retired: u64,
    /// Number of connections waiting in memory because the file cannot be written.
    pub waiting: u64,
    /// Size of the data in the file.
    pub size: Bytes,
}

/// The daemon's process. A field is `None` if the kernel does not report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DaemonProcess {
    /// CPU time, in user mode and in the kernel.
    pub cpu: Option<Nanos>,
    /// Resident memory.
    pub resident: Option<Bytes>,
    /// Mapped memory.
    pub mapped: Option<Bytes>,
    /// Number of open file descriptors.
    pub open_files: Option<u64>,
    /// Maximum number of open file descriptors.
    pub max_files: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// When the process started.
    pub started_at: Option<Timestamp>,
}

fn unix_time(at: Option<Timestamp>) -> Option<f64> {
    at.map(|at| at.as_microsecond() as f64 / 1e6)
}

fn count(number: Option<u64>) -> Option<f64> {
    number.map(|number| number as f64)
}

metrics! {
    /// Metrics of the daemon.
    SERVICE: Service {
        "mpwatch_agent_ticks_total" Counter Count "" "Snapshots published since the daemon started." |s| Some(s.ticks as f64);
        "mpwatch_agent_interval_seconds" Gauge Seconds "" "Time between two snapshots, as configured." |s| Some(s.interval.seconds());
        "mpwatch_agent_tick_work_seconds" Gauge Seconds "" "Time the daemon spent on the latest snapshot." |s| Some(s.tick_took.seconds());
        "mpwatch_agent_config_last_reload_successful" Gauge Count "" "Whether the latest reload of the configuration succeeded; if not, the previous one stays in force." |s| Some(f64::from(u8::from(s.config_ok)));
        "mpwatch_agent_web_config_last_reload_successful" Gauge Count "" "Whether the latest reload of the web-config file and its certificates succeeded; if not, the previous one stays in force." |s| Some(f64::from(u8::from(s.web_config_ok)));
        "mpwatch_agent_config_last_reload_success_timestamp_seconds" Gauge Seconds "" "When the configuration in force was loaded." |s| unix_time(s.config_read_at);
        "mpwatch_agent_socket_readers" Gauge Count "" "Clients of the Unix socket." |s| count(s.readers);
        "mpwatch_agent_socket_frames_dropped_total" Counter Count "" "Snapshots not sent to clients of the Unix socket that were too slow." |s| count(s.frames_dropped);
        "mpwatch_agent_clients_refused_total" Counter Count "" "Clients of the Unix socket or the web server that were refused or disconnected because there were too many." |s| Some(s.clients_refused as f64);
        "mpwatch_agent_series_merged_total" Counter Count "" "Label values whose series were merged into __other__." |s| Some(s.series_merged as f64);
        "mpwatch_agent_store_paused" Gauge Count "" "Whether writing to the store is suspended, so that connections wait in memory." |s| s.store.map(|store| f64::from(u8::from(store.paused)));
        "mpwatch_agent_store_connections_written_total" Counter Count "" "Connections written to the store; a connection that is updated counts again." |s| s.store.map(|store| store.written as f64);
        "mpwatch_agent_store_connections_retired_total" Counter Count "" "Connections deleted from the store by retention (age and size limits)." |s| s.store.map(|store| store.retired as f64);
        "mpwatch_agent_store_waiting_connections" Gauge Count "" "Connections waiting in memory because the store cannot be written." |s| s.store.map(|store| store.waiting as f64);
        "mpwatch_agent_store_size_bytes" Gauge Bytes "" "Size of the data in the store's file, without free pages, and of its log." |s| s.store.map(|store| store.size.0 as f64);
        "mpwatch_agent_eliminated_subflows_total" Counter Count "" "Extra subflows removed; no series if elimination is off." |s| s.elimination.map(|counts| counts.removed as f64);
        "mpwatch_agent_elimination_planned_total" Counter Count "" "Extra subflows that a dry run of elimination would have removed." |s| s.elimination.map(|counts| counts.planned as f64);
        "mpwatch_agent_elimination_failures_total" Counter Count "" "Steps of elimination that the kernel refused." |s| s.elimination.map(|counts| counts.failed as f64);
        "mpwatch_agent_elimination_left_alone_total" Counter Count "" "Connections that elimination leaves alone because the throughput of a link dropped." |s| s.elimination.map(|counts| counts.left_alone as f64);
        "mpwatch_agent_scrapes_total" Counter Count "" "Scrapes answered." |s| Some(s.scrapes as f64);
        "mpwatch_agent_scrape_seconds" Gauge Seconds "" "Time taken by the previous scrape." |s| s.scrape_took.map(Nanos::seconds);
        "process_cpu_seconds_total" Counter Seconds "" "CPU time of the daemon's process, without its BPF programs." |s| s.process.cpu.map(Nanos::seconds);
        "process_resident_memory_bytes" Gauge Bytes "" "Resident memory of the daemon's process." |s| s.process.resident.map(|bytes| bytes.0 as f64);
        "process_virtual_memory_bytes" Gauge Bytes "" "Mapped memory of the daemon's process." |s| s.process.mapped.map(|bytes| bytes.0 as f64);
        "process_open_fds" Gauge Count "" "Open file descriptors of the daemon's process." |s| count(s.process.open_files);
        "process_max_fds" Gauge Count "" "Limit of open file descriptors of the daemon's process." |s| count(s.process.max_files);
        "process_threads" Gauge Count "" "Threads of the daemon's process." |s| count(s.process.threads);
        "process_start_time_seconds" Gauge Seconds "" "When the daemon's process started." |s| unix_time(s.process.started_at);
    }
}

metrics! {
    /// Metrics of each export, with the label `target`.
    EXPORT: ExportState {
        "mpwatch_export_connections_total" Counter Count "" "Connections that a target has confirmed; a connection that is resent after a change counts again." |e| Some(e.connections as f64);
        "mpwatch_export_sent_bytes_total" Counter Bytes "" "Compressed size of the requests that a target has confirmed." |e| Some(e.sent.0 as f64);
        "mpwatch_export_failures_total" Counter Count "" "Requests to a target that failed; they are repeated." |e| Some(e.failures as f64);
        "mpwatch_export_rejected_connections_total" Counter Count "" "Connections that a target has rejected permanently." |e| Some(e.rejected as f64);
        "mpwatch_export_lost_connections_total" Counter Count "" "Connections that the database deleted (store.keep, store.max_size) before a target confirmed them." |e| count(e.lost);
        "mpwatch_export_waiting_connections" Gauge Count "" "Connections in the database that a target has not confirmed." |e| count(e.waiting);
        "mpwatch_export_lag_seconds" Gauge Seconds "" "Time since the end (or the last snapshot) of the connection that has waited longest for a target; 0 if no connection waits." |e| e.lag.map(Nanos::seconds);
    }
}
