// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of the tables, each declared once: what is written and what is read back follow from the same list. What the columns
//! mean stands in the latest file of schema/.

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
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        id: i64, run: i64, kind: i64, flags: i64, token: i64, birth: i64, remote_token: Maybe, pid: Maybe,
        began_ns: i64, age_ns: i64, bytes_sent: Maybe, acked_less: Maybe, bytes_received: Maybe,
        bytes_reinjected: Maybe, mptcp_bytes_retransmitted: Maybe, send_bps: i64, receive_bps: i64,
        jain_millionths: Maybe,
        second_path_more_us: Maybe, second_path_more_bytes: Maybe, second_path_effective_after_bytes: Maybe,
    }

    /// What many connections have in common; the number of one that is looked for is not known.
    ConnectionKind = "connection_kind" {
        id: Maybe, runs: i64, netns: i64, role: Maybe, protocol: i64, state: i64, fallback: Maybe, flow_class: i64,
        comm: Maybe, cgroup: Maybe, extra_subflows: Maybe, grouped: Maybe,
    }

    /// Addresses of a connection that are not those of its first subflow.
    EndsRow = "ends" {
        connection: i64, local_ip: Maybe, local_port: Maybe, remote_ip: Maybe, remote_port: Maybe,
    }

    /// A subflow.
    SubflowRow = "subflow" {
        id: i64, kind: i64, cookie_more: i64, ports: i64, remote_ip: i64,
        created_after_ns: Maybe, established_ns: Maybe, handshake_more_us: Maybe, joined_more_us: Maybe,
        joined_after_bytes: Maybe, closed_less_ns: Maybe,
        bytes_sent: i64, acked_less: i64, bytes_received: i64, bytes_retransmitted: i64,
        segments_retransmitted: i64, fast_less: Maybe, retransmits_timeout: Maybe, retransmits_probe: Maybe,
        srtt_us: Maybe, rtt_more_us: Maybe, rttvar_us: Maybe, rtt_min_less_us: Maybe, rtt_p50_more_us: Maybe,
        rtt_p99_more_us: Maybe, rtt_samples: i64,
        cwnd_segments: i64, delivery_bps: Maybe, lost_more: i64, timeouts: Maybe, send_bps: i64, receive_bps: i64,
        wire_sent_more: i64, wire_received_more: i64, scheduler_considered: Maybe, picked_less: Maybe,
        cpu_syscall_ns: Maybe, cpu_rx_softirq_ns: Maybe, cpu_tx_ns: Maybe, cpu_timer_ns: Maybe, cpu_worker_ns: Maybe,
        active_uj: Maybe, lo_less_uj: Maybe, hi_more_uj: Maybe, full_more_uj: Maybe, energy_cpu_more_ns: Maybe,
    }

    /// What many subflows have in common; the number of one that is looked for is not known.
    SubflowKind = "subflow_kind" {
        id: Maybe, flags: i64, generation: i64, local_ip: i64, local_id: i64, remote_id: i64, interface: Maybe,
        state: i64, close_reason: Maybe, energy_source: Maybe, energy_convention: Maybe, energy_idle: Maybe,
    }

    /// A verdict on two subflows.
    VerdictRow = "verdict" {
        id: i64, verdict: i64, probability: Maybe, since_us: Maybe,
        queue_concordance: Maybe, burst_concordance: Maybe, queue_signal: Maybe, rate_correlation: Maybe,
        sum_variation: Maybe, rate_variation: Maybe, least_variation: Maybe, loss_coincidence: Maybe,
        busy_a: Maybe, busy_b: Maybe, coverage: Maybe, window_us: Maybe,
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

/// Both ports of a subflow as one number of 32 bits.
pub(super) fn ports(local: u16, remote: u16) -> i64 {
    i64::from((u32::from(local) << 16 | u32::from(remote)).cast_signed())
}

/// A counter as SQLite holds it.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A counter as it was.
pub(super) fn counter(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}
