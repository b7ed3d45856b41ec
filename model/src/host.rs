// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine, its host-wide counters, and everything that was lost on the way (design principle 7).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::{Bytes, Nanos};

/// The machine that a snapshot or recording is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Boot id (`/proc/sys/kernel/random/boot_id`): flow ids are unique on one boot.
    pub boot_id: String,
    /// Version of mpwatch that traced.
    pub mpwatch: String,
    /// Hooks and fields that this kernel lacks or refused, each with what it costs. Empty: everything is known.
    pub missing: Vec<MissingHook>,
}

/// Something of the kernel that mpwatch does without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingHook {
    /// A tracepoint, an iterator, or a field of a structure as `tcp_sock.total_rto`.
    pub what: String,
    /// What is not known without it.
    pub costs: String,
    /// Why it is missing.
    pub why: String,
}

/// Everything that was lost since tracing began. All zero means: the record is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Losses {
    /// Final records that did not fit the ring buffer and were picked up from the overflow ring: late, but not lost.
    pub ring_full_recovered: u64,
    /// Final records that fitted neither. Their flows end with the counters of their last sample.
    pub records_lost: u64,
    /// Payload sent by flows whose final record was lost, so that host totals stay right.
    pub lost_bytes_sent: Bytes,
    /// Payload received by such flows.
    pub lost_bytes_received: Bytes,
    /// Sockets for which the kernel had no memory to trace them.
    pub storage_failed: u64,
    /// Sockets for whose CPU time the ledger had no room; their `cpu_ns` is not known.
    pub ledger_full: u64,
    /// Points of samples that found their ring full: verdicts on bottlenecks take longer, and no counter misses anything.
    pub points_lost: u64,
    /// Windows of a zone whose energy was charged to nobody because its parts did not sum to the whole: an error of mpwatch.
    pub energy_windows_broken: u64,
    /// Events that a program missed because it had itself just been interrupted on that CPU: the kernel does not run it twice at
    /// a time. So an RTT sample or a look of the scheduler may be missing, which no total depends on; changes of state have a second program
    /// for such moments.
    pub events_missed: u64,
    /// Records that could not be decoded.
    pub decode_errors: u64,
    /// Flows that vanished from the kernel without a final record; shown closed with reason `unknown`.
    pub vanished: u64,
    /// Timeline entries dropped because a connection had too many.
    pub timeline_dropped: u64,
    /// Namespaces that could not be searched for connections older than the agent.
    pub namespaces_unreadable: u64,
    /// Snapshots that the store (`--db`) had no time for, or no file yet. Where its writer was behind only samples of long connections are missing for it.
    pub store_snapshots_dropped: u64,
    /// Connections whose last counters could not be written to the store.
    pub store_flows_lost: u64,
    /// Samples of long connections that could not be written to the store.
    pub store_samples_lost: u64,
}

impl Losses {
    /// Whether anything of the record went missing for good. A missed event on the packet path, or a missed
    /// point of a sample, leaves no gap in it.
    pub fn any(&self) -> bool {
        Self { ring_full_recovered: 0, events_missed: 0, points_lost: 0, ..*self } != Self::default()
    }

    /// What went missing for good, one phrase for each counter that is not zero.
    pub fn phrases(&self) -> Vec<String> {
        let Self {
            ring_full_recovered: _,
            records_lost,
            lost_bytes_sent,
            lost_bytes_received,
            storage_failed,
            ledger_full,
            points_lost: _,
            energy_windows_broken,
            events_missed: _,
            decode_errors,
            vanished,
            timeline_dropped,
            namespaces_unreadable,
            store_snapshots_dropped,
            store_flows_lost,
            store_samples_lost,
        } = *self;
        let counted = [
            (records_lost, "final records lost, those flows end with their last sample"),
            (lost_bytes_sent.0, "bytes sent by flows whose final record was lost"),
            (lost_bytes_received.0, "bytes received by flows whose final record was lost"),
            (storage_failed, "sockets not traced for lack of kernel memory"),
            (energy_windows_broken, "windows whose energy was charged to nobody, a bug of mpwatch"),
            (ledger_full, "sockets whose CPU time is not known, the ledger was full"),
            (decode_errors, "records that could not be decoded"),
            (vanished, "flows that vanished without a final record"),
            (timeline_dropped, "timeline entries dropped"),
            (namespaces_unreadable, "namespaces not searched for older connections"),
            (store_snapshots_dropped, "snapshots that the store had no time for"),
            (store_flows_lost, "connections that could not be written to the store"),
            (store_samples_lost, "samples that could not be written to the store"),
        ];
        counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{what}: {count}"))
            .collect()
    }
}

/// Host-wide counters of MPTCP tracepoints that carry no socket, since tracing began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelCounters {
    /// Final records of flows that the kernel side tried to send.
    pub records: u64,
    /// Final records that arrived. What is missing to `records` is `losses.records_lost`, exactly.
    pub records_received: u64,
    /// Times that a sender put data onto a subflow, reinjections included (`mptcp_sendmsg_frag`).
    pub mappings_sent: u64,
    /// Times that a receiver looked at a DSS option (`get_mapping_status`); a mapping over several segments counts more than once.
    pub mappings_received: u64,
    /// DATA_ACKs received (`ack_update_msk`).
    pub data_acks: u64,
    /// Payload that they newly acknowledged.
    pub data_acked_bytes: Bytes,
    /// Verdicts of `subflow_check_data_avail` other than "data is there" or "nothing there".
    pub mapping_problems: MappingErrors,
    /// SYN-ACKs sent again.
    pub synack_retransmits: u64,
    /// Points of paths, for verdicts on bottlenecks, that came through their ring.
    pub points: u64,
    /// What they took there, heads of their batches included.
    pub points_bytes: Bytes,
    /// Runs of mpwatch's BPF programs while the kernel measured them (`sysctl kernel.bpf_stats_enabled=1`). `null`: it has not.
    pub program_runs: Option<u64>,
    /// Time that those took in all; the measuring itself is part of it.
    #[serde(rename = "program_time_ns")]
    pub program_time: Option<Nanos>,
}

impl KernelCounters {
    /// Mean time of a run of our BPF programs since then, nanoseconds, and how many there were. `None`: nothing was measured meanwhile.
    pub fn runs_since(&self, before: &Self) -> Option<(f64, u64)> {
        let runs = self.program_runs?.checked_sub(before.program_runs.unwrap_or(0))?;
        let time = self.program_time?.0.checked_sub(before.program_time.map_or(0, |time| time.0))?;
        (runs > 0).then(|| (time as f64 / runs as f64, runs))
    }
}

/// Bad mappings, counted over all subflows of the host: the tracepoint names no socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MappingErrors {
    /// Contradicted what was known; the subflow is reset.
    pub invalid: u64,
    /// Checksum failure.
    pub bad_checksum: u64,
    /// A segment without DSS where one was needed.
    pub no_dss: u64,
    /// Read as plain TCP, after a fallback.
    pub dummy: u64,
}

#[cfg(test)]
mod program_tests {
    use super::*;

    #[test]
    fn what_was_not_measured_has_no_mean() {
        let counted = |runs, time| KernelCounters {
            program_runs: Some(runs),
            program_time: Some(Nanos(time)),
            ..KernelCounters::default()
        };
        let nothing = KernelCounters::default();
        assert_eq!(nothing.runs_since(&nothing), None);
        assert_eq!(counted(10, 2_000).runs_since(&nothing), Some((200.0, 10)));
        assert_eq!(counted(30, 5_000).runs_since(&counted(10, 2_000)), Some((150.0, 20)));
        assert_eq!(counted(30, 5_000).runs_since(&counted(30, 5_000)), None, "it was switched off again");
    }
}
