// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of all outputs: a snapshot of all flows, once per tick, and the report on a whole run.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::class_totals::{ClassTotals, class_totals};
use crate::flow::connection::Connection;
use crate::flow::idle::{IdleConnections, OpenCounts};
use crate::host::energy::SnapshotEnergy;
use crate::host::machine::{Host, KernelCounters, Losses, Overhead};
use crate::host::setup::Setup;
use crate::kernel::cpu::CpuAccounts;
use crate::metric::derived;
use crate::unit::Nanos;

/// Version of the JSON format. It changes if the meaning of a field changes, but not for new fields.
pub const SCHEMA: u32 = 1;

/// All connections at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Version of this format.
    pub schema: u32,
    /// Time of the snapshot (RFC 3339, UTC).
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// Time since the previous snapshot; rates are over this time. `null`: this is the first snapshot.
    pub interval_s: Option<f64>,
    /// The machine.
    pub host: Host,
    /// Labels and settings of the run.
    pub setup: Arc<Setup>,
    /// Open connections, and closed connections with their final values. A closed connection stays for two more snapshots or longer; its last
    /// object is its complete record.
    pub connections: Vec<Connection>,
    /// Host-wide counters.
    pub counters: KernelCounters,
    /// CPU time of each CPU by account since tracing began. `null`: CPU time is not accounted (`--ledger off`, or see `host.missing`).
    pub cpus: Option<Vec<CpuAccounts>>,
    /// Energy of the machine since tracing began, by zone and account. `null`: CPU time is not accounted.
    pub energy: Option<SnapshotEnergy>,
    /// Counters of lost data.
    pub losses: Losses,
    /// CPU time that mpwatch itself uses. `null`: not measured yet, or the ledger is `exact`.
    pub overhead: Option<Overhead>,
    /// Calendar time of boot-clock zero, in nanoseconds since 1970. All times of the snapshot are computed from it. Not in the JSON format.
    #[serde(skip)]
    pub boot_epoch_ns: i64,
    /// Idle connections of a daemon, which are not in `connections`. Not in the JSON format: [`Snapshot::complete`] adds them.
    #[serde(skip)]
    pub idle: IdleConnections,
}

impl Snapshot {
    /// The time of the snapshot on the boot clock.
    pub fn boot_time(&self) -> Nanos {
        let since_boot = self.at.as_nanosecond() - i128::from(self.boot_epoch_ns);
        Nanos(u64::try_from(since_boot).unwrap_or(0))
    }

    /// The idle connections as of the time of this snapshot.
    pub fn idle_connections(&self) -> impl Iterator<Item = Connection> {
        let at = self.boot_time();
        self.idle.iter().map(move |idle| idle.connection(at, self.boot_epoch_ns))
    }

    /// The snapshot with all connections in one list: connections opened before tracing began, then other connections in order of opening.
    pub fn complete(&self) -> Cow<'_, Self> {
        if self.idle.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut complete = Self { idle: IdleConnections::default(), ..self.clone() };
        complete.connections.extend(self.idle_connections());
        complete.connections.sort_by_key(|connection| (connection.opened_at, connection.id));
        Cow::Owned(complete)
    }

    /// Counts over all connections.
    pub fn open_counts(&self) -> OpenCounts {
        let mut counts = self.idle.counts().clone();
        self.connections.iter().for_each(|connection| counts.add(connection));
        counts
    }
}

/// All connections of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(transform = derived::extend_schema::<Report>)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// The observed machine and period.
    pub run: Run,
    /// Every connection of the period, open connections included, in order of appearance.
    pub connections: Vec<Connection>,
    /// The connections by protocol and size class, summed up.
    pub flow_classes: Vec<ClassTotals>,
    /// Host-wide counters.
    pub counters: KernelCounters,
    /// CPU time of each CPU by account since tracing began. `null`: CPU time is not accounted (`--ledger off`, or see `host.missing`).
    pub cpus: Option<Vec<CpuAccounts>>,
    /// Energy of the machine since tracing began, by zone and account. `null`: CPU time is not accounted.
    pub energy: Option<SnapshotEnergy>,
    /// Counters of lost data.
    pub losses: Losses,
    /// Number of connections that a filter removed from `connections`. Not part of the JSON format.
    #[serde(skip)]
    pub filtered_out: usize,
    /// Whether the report is on one network namespace, so that errors counted for the host may belong to other namespaces. Not part of JSON.
    #[serde(skip)]
    pub is_of_namespace: bool,
    /// Start times of the runs in the report, in order. Empty: the report is on one run. Not part of the JSON format.
    #[serde(skip)]
    pub run_starts: Vec<Timestamp>,
}

impl Report {
    /// The report on these connections of a snapshot.
    pub fn from_snapshot(snapshot: &Snapshot, connections: Vec<Connection>) -> Self {
        let (host, setup) = (snapshot.host.clone(), Arc::clone(&snapshot.setup));
        Self {
            schema: snapshot.schema,
            run: Run { host, setup, from: snapshot.at, to: snapshot.at, ..Run::default() },
            counters: snapshot.counters.clone(),
            cpus: snapshot.cpus.clone(),
            energy: snapshot.energy.clone(),
            losses: snapshot.losses,
            ..Self::default()
        }
        .with(connections)
    }

    /// The same report with these connections.
    #[must_use]
    pub fn with(self, connections: Vec<Connection>) -> Self {
        Self { flow_classes: class_totals(&connections), connections, ..self }
    }
}

/// A period of observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The machine.
    pub host: Host,
    /// Labels and settings of the run; if the period has several runs, the settings that are equal in all runs.
    pub setup: Arc<Setup>,
    /// Start of tracing.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub from: Timestamp,
    /// Time of the last reading of the kernel's counters (tick).
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub to: Timestamp,
    /// Start of the period that the user asked for (`--since`). `null`: no limit.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub since: Option<Timestamp>,
    /// End of the period that the user asked for (`--until`). `null`: no limit.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub until: Option<Timestamp>,
    /// Why the recording is incomplete: its recorder was killed, or the file is damaged. `null`: it is complete.
    pub cut_short: Option<String>,
}
