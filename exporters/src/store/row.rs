// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of the tables, each declared once: what is written and what is read back follow from the same list. What the columns
//! mean stands in schema.sql.

use rusqlite::{CachedStatement, Connection, Row as Found, Statement};

/// A row of a table.
pub(super) trait Row: Sized {
    /// Name of the table.
    const TABLE: &'static str;
    /// Its columns, in the order of the fields.
    const COLUMNS: &'static [&'static str];

    /// Sets the parameters of an insertion.
    fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()>;

    /// From a row of [`select`].
    fn read(row: &Found<'_>) -> rusqlite::Result<Self>;
}

/// Insertion of such rows; a row of the same key is replaced.
pub(super) fn insertion<R: Row>(database: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    let places = vec!["?"; R::COLUMNS.len()].join(",");
    database.prepare_cached(&format!(
        "INSERT OR REPLACE INTO {} ({}) VALUES ({places})",
        R::TABLE,
        R::COLUMNS.join(",")
    ))
}

/// Runs an insertion.
pub(super) fn insert<R: Row>(statement: &mut Statement<'_>, row: &R) -> rusqlite::Result<()> {
    row.bind(statement)?;
    statement.raw_execute().map(drop)
}

/// A query for all columns; `rest` follows the name of the table.
pub(super) fn select<R: Row>(rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", R::COLUMNS.join(","), R::TABLE)
}

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident = $table:literal { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(super) struct $name {
            $(pub(super) $field: $kind),*
        }

        impl Row for $name {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
                let mut places = 1..;
                $(statement.raw_bind_parameter(places.next().unwrap_or_default(), &self.$field)?;)*
                Ok(())
            }

            fn read(row: &Found<'_>) -> rusqlite::Result<Self> {
                let mut places = 0..;
                Ok(Self { $($field: row.get(places.next().unwrap_or_default())?),* })
            }
        }
    )*};
}

type Maybe = Option<i64>;

rows! {
    /// A connection; counters that are the sums of its subflows' are not in it.
    ConnectionRow = "connection" {
        id: i64, run: i64, runs: i64, netns: i64, token: i64, birth: i64, remote_token: Maybe, flags: i64, role: Maybe,
        protocol: i64, state: i64, fallback: Maybe, pid: Maybe, comm: Maybe, cgroup: Maybe,
        local_ip: Maybe, local_port: Maybe, remote_ip: Maybe, remote_port: Maybe,
        began_ns: i64, age_ns: i64, bytes_sent: Maybe, bytes_acked: Maybe, bytes_received: Maybe,
        bytes_reinjected: Maybe, mptcp_bytes_retransmitted: Maybe, send_bps: i64, receive_bps: i64,
        flow_class: i64, excess_ratio: Option<f64>, jain_index: Option<f64>,
        second_path_after_us: Maybe, second_path_after_bytes: Maybe, second_path_effective_after_bytes: Maybe,
        extra_subflows: Maybe, bottlenecks: Option<String>,
    }

    /// A subflow.
    SubflowRow = "subflow" {
        id: i64, cookie: i64, generation: i64, flags: i64,
        local_ip: i64, local_port: i64, remote_ip: i64, remote_port: i64, local_id: i64, remote_id: i64,
        interface: Maybe, state: i64, created_after_ns: Maybe, established_after_ns: Maybe, handshake_us: Maybe,
        joined_after_us: Maybe, joined_after_bytes: Maybe,
        bytes_sent: i64, bytes_acked: i64, bytes_received: i64, bytes_retransmitted: i64,
        segments_retransmitted: i64, retransmits_fast: Maybe, retransmits_timeout: Maybe, retransmits_probe: Maybe,
        rtt_us: Maybe, srtt_us: Maybe, rttvar_us: Maybe, rtt_min_us: Maybe, rtt_p50_us: Maybe, rtt_p99_us: Maybe,
        rtt_samples: i64, cwnd_segments: i64, delivery_bps: Maybe, lost_segments: i64, timeouts: Maybe,
        send_bps: i64, receive_bps: i64, wire_bytes_sent_estimate: i64, wire_bytes_received_estimate: i64,
        scheduler_considered: Maybe, scheduler_picked: Maybe,
        cpu_syscall_ns: Maybe, cpu_rx_softirq_ns: Maybe, cpu_tx_ns: Maybe, cpu_timer_ns: Maybe, cpu_worker_ns: Maybe,
        active_uj: Maybe, lo_uj: Maybe, hi_uj: Maybe, full_uj: Maybe, energy_cpu_ns: Maybe,
        energy_source: Maybe, energy_convention: Maybe, energy_idle: Maybe,
        closed_after_ns: Maybe, close_reason: Maybe,
    }

    /// Something that happened.
    EventRow = "event" {
        connection: i64, seq: i64, after_ns: i64, source: i64, kind: i64,
        subflow: Option<String>, number: Maybe, word: Maybe, address: Option<String>,
    }

    /// Where a subflow's counters stood at a time.
    SampleRow = "sample" {
        subflow: i64, after_ns: i64, bytes_sent: i64, bytes_received: i64, bytes_retransmitted: i64,
        srtt_us: Maybe, cwnd_segments: i64, active_uj: Maybe,
    }

    /// A period of observation.
    RunRow = "run" {
        id: i64, host: String, boot_id: String, kernel: String, mpwatch: String, from_ns: i64, to_ns: i64,
        missing: String, losses: String, counters: String, cpus: Option<String>, energy: Option<String>,
        snapshots_dropped: i64, flows_lost: i64, samples_lost: i64,
    }
}

/// The connection has its opening by tracepoint, its beginning is when it was opened.
pub(super) const SEEN_OPEN: i64 = 1;
/// It closed; its age runs until then.
pub(super) const CLOSED: i64 = 2;
/// Its timeline has its opening.
pub(super) const TOLD_OPENING: i64 = 4;
/// Its timeline has its end.
pub(super) const TOLD_CLOSING: i64 = 8;

/// The subflow is the initial one.
pub(super) const INITIAL: i64 = 1;
/// It is a backup.
pub(super) const BACKUP: i64 = 2;
/// It is stale.
pub(super) const STALE: i64 = 4;
/// The timeline has its SYN.
pub(super) const TOLD_SYN: i64 = 8;
/// The timeline has its end.
pub(super) const TOLD_END: i64 = 16;

/// Places of subflows in the id of a connection.
pub(super) const PLACES: i64 = 4096;

/// The number under which a subflow is stored; its place counts from 1.
pub(super) fn subflow_id(connection: i64, place: usize) -> i64 {
    connection * PLACES + number(place as u64)
}

/// A counter as SQLite holds it.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A counter as it was.
pub(super) fn counter(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}
