// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon tells of itself: plain counts that its parts keep, and the rows by which Prometheus shows them.

use jiff::Timestamp;

use crate::metric::{Kind, Metric, Unit};
use crate::unit::{Bytes, Nanos};

/// The state of the daemon at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Snapshots published since it started.
    pub ticks: u64,
    /// Time between two snapshots, as configured.
    pub interval: Nanos,
    /// How long the tracker and everything that takes its snapshots worked on the latest one.
    pub tick_took: Nanos,
    /// Whether the latest reading of the configuration succeeded. After a failure the one before it stays in force.
    pub config_ok: bool,
    /// Whether the latest reading of the web-config file and its certificates succeeded, likewise. Also without such a file.
    pub web_config_ok: bool,
    /// When the configuration that is in force was read.
    pub config_read_at: Option<Timestamp>,
    /// Readers on the Unix socket now. `None`: there is no socket.
    pub readers: Option<u64>,
    /// Snapshots that a reader of the socket lost because it was too slow. `None`: there is no socket.
    pub frames_dropped: Option<u64>,
    /// Connections to the socket or the web server refused, or let go after a silence, because there were too many.
    pub clients_refused: u64,
    /// Scrapes answered.
    pub scrapes: u64,
    /// How long the latest of them took to write. `None`: there was none.
    pub scrape_took: Option<Nanos>,
    /// The daemon as the kernel sees it.
    pub process: DaemonProcess,
    /// Label values that gave up their series to `__other__`, because a larger one wanted it or its time was over.
    pub series_merged: u64,
    /// The store. `None`: there is none.
    pub store: Option<StoreState>,
}

/// How the store is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreState {
    /// Whether nothing can be written at the moment.
    pub paused: bool,
    /// Connections written; one that was written again counts again.
    pub written: u64,
    /// Connections deleted to keep the limits of age and size.
    pub retired: u64,
    /// Connections that wait in memory because the file cannot be written.
    pub waiting: u64,
    /// Size of what the file holds.
    pub size: Bytes,
}

/// The daemon's own process. `None`: the kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DaemonProcess {
    /// CPU time, in user mode and in the kernel.
    pub cpu: Option<Nanos>,
    /// Memory that it has in RAM.
    pub resident: Option<Bytes>,
    /// Memory that it has mapped.
    pub mapped: Option<Bytes>,
    /// File descriptors that are open.
    pub open_files: Option<u64>,
    /// File descriptors that may be.
    pub most_files: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// When it started.
    pub started_at: Option<Timestamp>,
}

fn unix_time(at: Option<Timestamp>) -> Option<f64> {
    at.map(|at| at.as_microsecond() as f64 / 1e6)
}

fn count(number: Option<u64>) -> Option<f64> {
    number.map(|number| number as f64)
}

macro_rules! rows {
    ($($name:literal $kind:ident $unit:ident $help:literal $read:expr;)*) => {
        /// Metrics of the daemon.
        pub static SERVICE: &[Metric<Service>] = &[$(Metric {
            name: $name,
            help: $help,
            kind: Kind::$kind,
            unit: Unit::$unit,
            title: "",
            read: $read,
            column: None,
        }),*];
    };
}

rows! {
    "mpwatch_agent_ticks_total" Counter Count "Snapshots published since the daemon started." |s| Some(s.ticks as f64);
    "mpwatch_agent_interval_seconds" Gauge Seconds "Time between two snapshots, as configured." |s| Some(s.interval.seconds());
    "mpwatch_agent_tick_work_seconds" Gauge Seconds "How long the daemon worked on the latest snapshot." |s| Some(s.tick_took.seconds());
    "mpwatch_agent_config_last_reload_successful" Gauge Count "Whether the latest reading of the configuration succeeded; if not, the one before it is in force." |s| Some(f64::from(u8::from(s.config_ok)));
    "mpwatch_agent_web_config_last_reload_successful" Gauge Count "Whether the latest reading of the web-config file and its certificates succeeded; if not, what was in force stays." |s| Some(f64::from(u8::from(s.web_config_ok)));
    "mpwatch_agent_config_last_reload_success_timestamp_seconds" Gauge Seconds "When the configuration in force was read." |s| unix_time(s.config_read_at);
    "mpwatch_agent_socket_readers" Gauge Count "Readers on the Unix socket." |s| count(s.readers);
    "mpwatch_agent_socket_frames_dropped_total" Counter Count "Snapshots that readers of the Unix socket lost because they were too slow." |s| count(s.frames_dropped);
    "mpwatch_agent_clients_refused_total" Counter Count "Connections to the Unix socket or the web server that were refused or let go because there were too many." |s| Some(s.clients_refused as f64);
    "mpwatch_agent_series_merged_total" Counter Count "Label values that gave up their series to __other__." |s| Some(s.series_merged as f64);
    "mpwatch_agent_store_paused" Gauge Count "Whether the store cannot be written at the moment, so that connections wait in memory." |s| s.store.map(|store| f64::from(u8::from(store.paused)));
    "mpwatch_agent_store_connections_written_total" Counter Count "Connections written to the store; one that was written again counts again." |s| s.store.map(|store| store.written as f64);
    "mpwatch_agent_store_connections_retired_total" Counter Count "Connections deleted from the store to keep its limits of age and size." |s| s.store.map(|store| store.retired as f64);
    "mpwatch_agent_store_waiting_connections" Gauge Count "Connections that wait in memory because the store cannot be written." |s| s.store.map(|store| store.waiting as f64);
    "mpwatch_agent_store_size_bytes" Gauge Bytes "What the file of the store holds; free pages are not counted." |s| s.store.map(|store| store.size.0 as f64);
    "mpwatch_agent_scrapes_total" Counter Count "Scrapes answered." |s| Some(s.scrapes as f64);
    "mpwatch_agent_scrape_seconds" Gauge Seconds "How long the scrape before this one took to write." |s| s.scrape_took.map(Nanos::seconds);
    "process_cpu_seconds_total" Counter Seconds "CPU time of the daemon's process; what its programs take in the kernel is not in it." |s| s.process.cpu.map(Nanos::seconds);
    "process_resident_memory_bytes" Gauge Bytes "Memory of the daemon's process in RAM." |s| s.process.resident.map(|bytes| bytes.0 as f64);
    "process_virtual_memory_bytes" Gauge Bytes "Memory that the daemon's process has mapped." |s| s.process.mapped.map(|bytes| bytes.0 as f64);
    "process_open_fds" Gauge Count "File descriptors that the daemon's process has open." |s| count(s.process.open_files);
    "process_max_fds" Gauge Count "File descriptors that it may have open." |s| count(s.process.most_files);
    "process_threads" Gauge Count "Threads of the daemon's process." |s| count(s.process.threads);
    "process_start_time_seconds" Gauge Seconds "When the daemon's process started." |s| unix_time(s.process.started_at);
}
