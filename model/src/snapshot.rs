// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input of every output: a snapshot of all flows, once per tick, and the report on a whole run.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::connection::Connection;
use crate::cpu::CpuAccounts;
use crate::energy::SnapshotEnergy;
use crate::host::{Host, KernelCounters, Losses};

/// Version of the JSON format. New fields do not change it; a changed meaning does.
pub const SCHEMA: u32 = 1;

/// All connections at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Version of this format.
    pub schema: u32,
    /// Time of the snapshot (RFC 3339, UTC).
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// Time since the previous snapshot; rates are over this time. Zero in the first one.
    pub interval_s: f64,
    /// The machine.
    pub host: Host,
    /// Open connections, and closed ones with their final values for two more snapshots. The last object with an id is the complete
    /// record of that connection.
    pub connections: Vec<Connection>,
    /// Host-wide counters.
    pub counters: KernelCounters,
    /// CPU time of each CPU by account since tracing began. `null`: not accounted.
    pub cpus: Option<Vec<CpuAccounts>>,
    /// Energy of the machine since tracing began, by zone and account. `null`: CPU time is not accounted.
    pub energy: Option<SnapshotEnergy>,
    /// Counters of lost data.
    pub losses: Losses,
    /// Calendar time, in nanoseconds since 1970, of boot-clock zero, by which all times in it are dated. Not part of the format.
    #[serde(skip)]
    pub boot_epoch_ns: i64,
}

/// All connections of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// The observed machine and period.
    pub run: Run,
    /// Every connection of the period, open ones included, in order of appearance.
    pub connections: Vec<Connection>,
    /// Host-wide counters.
    pub counters: KernelCounters,
    /// CPU time of each CPU by account since tracing began. `null`: not accounted.
    pub cpus: Option<Vec<CpuAccounts>>,
    /// Energy of the machine since tracing began, by zone and account. `null`: CPU time is not accounted.
    pub energy: Option<SnapshotEnergy>,
    /// Counters of lost data.
    pub losses: Losses,
    /// Connections that a filter removed from `connections`. Not part of the format.
    #[serde(skip)]
    pub filtered_out: usize,
}

/// A period of observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The machine.
    pub host: Host,
    /// Start of tracing.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub from: Timestamp,
    /// Last tick.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub to: Timestamp,
    /// Why the recording is incomplete: its recorder was killed, or the file is damaged. `null`: it is complete.
    #[serde(default)]
    pub cut_short: Option<String>,
}
