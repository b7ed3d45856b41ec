// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine, its host-wide counters, counters of all losses, and mpwatch's own CPU time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::{Bytes, Nanos};

/// The machine on which a snapshot or recording was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Boot id (`/proc/sys/kernel/random/boot_id`): flow ids are unique within one boot.
    pub boot_id: String,
    /// Version of mpwatch.
    pub mpwatch: String,
    /// Upper bound of the error of the calendar clock, in nanoseconds, as set by the program that synchronizes it
    /// (`maxerror` of adjtimex(2)). `null`: the clock is not synchronized, or the kernel does not report it.
    #[serde(rename = "clock_error_ns")]
    pub clock_error: Option<Nanos>,
    /// Hooks and fields that this kernel lacks or refuses, or that mpwatch does not use to keep its CPU budget. Empty: nothing is missing.
    pub missing: Vec<MissingHook>,
}

/// A hook or field that this kernel lacks or refuses, or that mpwatch does not use to keep its CPU budget (`trace.budget`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingHook {
    /// A tracepoint, an iterator, or a structure field such as `tcp_sock.total_rto`.
    pub what: String,
    /// The values that are unknown or less precise without the hook or field.
    pub costs: String,
    /// Why the hook or field is missing.
    pub why: String,
}

impl MissingHook {
    /// The setting that limits mpwatch's own CPU time.
    pub const BUDGET: &str = "trace.budget";

    /// Whether the kernel has the hook, but mpwatch does not use it, to stay within its budget.
    pub fn is_reduction(&self) -> bool {
        self.why.contains(Self::BUDGET)
    }
}

/// Everything that was lost since tracing began. All zero: no data was lost. A final record is the last report of a BPF program on a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Losses {
    /// Final records that did not fit the ring buffer and arrived through the overflow ring: late, but not lost.
    pub ring_full_recovered: u64,
    /// Final records that fitted neither ring buffer. Their flows end with the counters of their last sample.
    pub records_lost: u64,
    /// Payload sent by flows whose final record was lost, or that could not be traced; host totals include this payload.
    pub lost_bytes_sent: Bytes,
    /// Payload received by flows whose final record was lost, or that could not be traced.
    pub lost_bytes_received: Bytes,
    /// Failed attempts to trace a socket, because the kernel had no memory. The next event of the socket tries again; the payload of a socket
    /// that was never traced is in `lost_bytes_sent` and `lost_bytes_received`.
    pub storage_failed: u64,
    /// Sockets that did not fit into the CPU ledger; their `cpu_ns` is unknown.
    pub ledger_full: u64,
    /// Delay samples that did not fit their ring buffer. Bottleneck verdicts take longer; no counter is affected.
    pub delay_samples_lost: u64,
    /// Windows whose energy was charged to no account because the parts did not sum to the whole: a bug in mpwatch.
    pub energy_windows_broken: u64,
    /// Events that occurred while the same BPF program was running on the same CPU. RTT samples or scheduler rounds may be missing; no total
    /// depends on them. A connection whose opening was missed has `seen_open: false`.
    pub events_missed: u64,
    /// Records that could not be decoded.
    pub decode_errors: u64,
    /// Flows that disappeared from the kernel without a final record; they are reported as closed with reason `unknown`.
    pub vanished: u64,
    /// Timeline entries discarded because a connection had too many entries.
    pub timeline_dropped: u64,
    /// Ended subflows that connections no longer list because they had too many subflows; the sums of a connection include them.
    pub subflows_dropped: u64,
    /// Closed connections that the report of `record` and `replay` omits, because it lists only the latest 50 000. The recording and a database
    /// (`--db`) have all connections.
    pub connections_unreported: u64,
    /// Network namespaces that could not be searched for connections opened before mpwatch started.
    pub namespaces_unreadable: u64,
    /// Missing snapshots, because reading from the kernel failed, for example for lack of file descriptors or memory. Counters are cumulative, so
    /// the next snapshot is complete again.
    pub ticks_failed: u64,
    /// Snapshots that the store (`--db`) skipped because its writer was late or had no file yet. If the writer was late, only samples of long
    /// connections are missing.
    pub store_snapshots_dropped: u64,
    /// Connections whose last counters could not be written to the store.
    pub store_flows_lost: u64,
    /// Samples of long connections that could not be written to the store.
    pub store_samples_lost: u64,
}

impl Losses {
    /// Whether data was lost permanently. Losses on which no total depends do not count, such as delay samples.
    pub fn any(&self) -> bool {
        let counted = Self {
            ring_full_recovered: 0,
            events_missed: 0,
            delay_samples_lost: 0,
            timeline_dropped: 0,
            subflows_dropped: 0,
            ..*self
        };
        counted != Self::default()
    }

    /// Permanent losses, one phrase per counter that is not zero.
    pub fn phrases(&self) -> Vec<String> {
        let counted = [
            (self.records_lost, "final records lost, those flows end with their last sample"),
            (self.lost_bytes_sent.0, "bytes sent by flows without a final record"),
            (self.lost_bytes_received.0, "bytes received by flows without a final record"),
            (self.storage_failed, "times the kernel had no memory to trace a socket"),
            (self.energy_windows_broken, "windows whose energy was charged to no account, a bug in mpwatch"),
            (self.ledger_full, "sockets whose CPU time is unknown, the ledger was full"),
            (self.decode_errors, "records that could not be decoded"),
            (self.vanished, "flows that disappeared without a final record"),
            (
                self.connections_unreported,
                "older connections not in this report; a database has them (--db FILE)",
            ),
            (self.namespaces_unreadable, "namespaces not searched for older connections"),
            (self.ticks_failed, "snapshots that could not be read from the kernel"),
            (self.store_snapshots_dropped, "snapshots skipped by the store"),
            (self.store_flows_lost, "connections that could not be written to the store"),
            (self.store_samples_lost, "samples that could not be written to the store"),
        ];
        counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{what}: {count}"))
            .collect()
    }
}

/// Host-wide counters since tracing began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelCounters {
    /// Final records of flows that the BPF programs tried to send.
    pub records: u64,
    /// Final records that arrived. `records - records_received` is equal to `losses.records_lost`.
    pub records_received: u64,
    /// DSS mapping errors in the network namespaces of mpwatch and of the processes that own connections.
    pub mapping_problems: MappingErrors,
    /// The kernel's counters of MPTCP (`MPTcpExt`, as `nstat` prints them) in the same namespaces, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mptcp_mib: BTreeMap<String, u64>,
    /// SYN-ACKs retransmitted.
    pub synack_retransmits: u64,
    /// Number of delay samples received; bottleneck verdicts are based on them.
    pub delay_samples: u64,
    /// Bytes of the delay samples in their ring buffer, batch headers included.
    pub delay_sample_bytes: Bytes,
    /// Runs of mpwatch's BPF programs, counted by the kernel's run-time statistics (`sysctl kernel.bpf_stats_enabled=1`). `null`: disabled.
    pub program_runs: Option<u64>,
    /// Total time of those runs, including the measurement itself.
    #[serde(rename = "program_time_ns")]
    pub program_time: Option<Nanos>,
}

impl KernelCounters {
    /// Mean time per run of mpwatch's BPF programs since `before`, in nanoseconds, and the number of runs. `None`: no run was measured.
    pub fn runs_since(&self, before: &Self) -> Option<(f64, u64)> {
        let runs = self.program_runs?.checked_sub(before.program_runs.unwrap_or(0))?;
        let time = self.program_time?.0.checked_sub(before.program_time.map_or(0, |time| time.0))?;
        (runs > 0).then(|| (time as f64 / runs as f64, runs))
    }
}

/// DSS mapping errors since mpwatch first read a network namespace, as counted per namespace (`MPTcpExt` in `/proc/net/netstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MappingErrors {
    /// The mapping contradicts an earlier mapping (`DSSNotMatching`) or the TCP sequence numbers (`DSSNoMatchTCP`); the kernel resets the subflow.
    pub invalid: u64,
    /// Checksum failures (`DataCsumErr`).
    pub bad_checksum: u64,
}

impl MappingErrors {
    /// The errors among the counters of `MPTcpExt`.
    pub fn from_mib(mib: &BTreeMap<String, u64>) -> Self {
        let count = |name: &str| mib.get(name).copied().unwrap_or(0);
        Self { invalid: count("DSSNotMatching") + count("DSSNoMatchTCP"), bad_checksum: count("DataCsumErr") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_permanent_loss_has_a_phrase() {
        let none = serde_json::to_value(Losses::default()).unwrap();
        for name in none.as_object().unwrap().keys() {
            let losses: Losses = serde_json::from_value(serde_json::json!({ name.as_str(): 1 })).unwrap();
            assert_eq!(losses.phrases().len(), usize::from(losses.any()), "{name}");
        }
    }

    #[test]
    fn the_mean_needs_a_measured_run() {
        let counted = |runs, time| KernelCounters {
            program_runs: Some(runs),
            program_time: Some(Nanos(time)),
            ..KernelCounters::default()
        };
        let nothing = KernelCounters::default();
        assert_eq!(nothing.runs_since(&nothing), None);
        assert_eq!(counted(10, 2_000).runs_since(&nothing), Some((200.0, 10)));
        assert_eq!(counted(30, 5_000).runs_since(&counted(10, 2_000)), Some((150.0, 20)));
        assert_eq!(
            counted(30, 5_000).runs_since(&counted(30, 5_000)),
            None,
            "statistics were disabled again"
        );
    }
}

/// CPU time that mpwatch itself uses, and the limit that is set for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// Share of the CPU time of all CPUs, 0 to 1, smoothed over about four snapshots: the process of mpwatch (without serving clients) and its BPF
    /// programs (estimated).
    pub ratio: f64,
    /// Maximum of `ratio` (`trace.budget`). `null`: there is no limit.
    pub budget: Option<f64>,
    /// Number of reductions in force to keep the budget, 0 to 5. `host.missing` lists the values that are less precise.
    pub reductions: u8,
}
