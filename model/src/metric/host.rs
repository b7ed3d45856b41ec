// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics of the whole machine. The number of values of each label is bounded.

use super::row::Kind;
use super::unit::Unit;
use crate::flow::bottleneck::Verdict;
use crate::host::energy::ZoneEnergy;
use crate::kernel::cpu::CpuAccounts;
use crate::kernel::lifecycle::TcpState;
use crate::snapshot::Snapshot;

/// Receives the values of the labels and the number.
pub type Emit<'a> = dyn FnMut(&[&str], f64) + 'a;

/// One row of the table.
pub struct MetricFamily {
    /// Full name, `mpwatch_<subject>_<thing>_<unit>[_total]`.
    pub name: &'static str,
    /// Description in one sentence.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: Unit,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Emits the values. Unknown values are not emitted.
    pub read: fn(&Snapshot, &mut Emit<'_>),
}

macro_rules! families {
    ($($name:literal $kind:ident $unit:ident $labels:tt $help:literal $read:expr;)*) => {
        /// Metrics of the machine.
        pub static HOST_METRICS: &[MetricFamily] = &[$(MetricFamily {
            name: $name,
            help: $help,
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &$labels,
            read: $read,
        }),*];
    };
}

families! {
    "mpwatch_build_info" Gauge Count ["version"] "Version of the running mpwatch; always 1." |s, emit| emit(&[&s.host.mpwatch], 1.0);
    "mpwatch_host_info" Gauge Count ["kernel", "boot_id"] "Kernel release and boot id of the machine; always 1." |s, emit| emit(&[&s.host.kernel, &s.host.boot_id], 1.0);
    "mpwatch_host_missing_hook" Gauge Count ["what"] "A hook or field that this kernel lacks, so that values are unknown, or that the budget disables, so that values are less precise; always 1." |s, emit| s.host.missing.iter().for_each(|hook| emit(&[&hook.what], 1.0));
    "mpwatch_overhead_ratio" Gauge Ratio [] "Estimated share of the CPU time of all CPUs that mpwatch uses, 0 to 1: its process and its BPF programs." |s, emit| if let Some(overhead) = s.overhead { emit(&[], overhead.ratio) };
    "mpwatch_overhead_budget_ratio" Gauge Ratio [] "Maximum share of the CPU time of all CPUs that mpwatch may use (trace.budget)." |s, emit| if let Some(budget) = s.overhead.and_then(|overhead| overhead.budget) { emit(&[], budget) };
    "mpwatch_overhead_reductions" Gauge Count [] "Number of reductions in force to keep the budget, 0 to 5; mpwatch_host_missing_hook lists the values that are less precise." |s, emit| if let Some(overhead) = s.overhead { emit(&[], f64::from(overhead.reductions)) };
    "mpwatch_host_connections" Gauge Count ["state"] "Open connections." connections;
    "mpwatch_host_fallback_connections" Gauge Count [] "Open connections that asked for MPTCP and continue as plain TCP." |s, emit| emit(&[], s.open_counts().fallbacks as f64);
    "mpwatch_findings" Gauge Count ["cause"] "Open connections with one path or a fallback, by the cause that `mpwatch why` gives." |s, emit| s.open_counts().causes.iter().for_each(|(cause, count)| emit(&[cause], *count as f64));
    "mpwatch_host_subflows" Gauge Count [] "Open subflows." |s, emit| emit(&[], s.open_counts().subflows as f64);
    "mpwatch_host_extra_subflows" Gauge Count [] "Subflows of open connections in excess of one per bottleneck, where known." |s, emit| emit(&[], s.open_counts().extra_subflows as f64);
    "mpwatch_host_subflow_pairs" Gauge Count ["verdict"] "Pairs of subflows of open connections, by verdict on whether they share a bottleneck." pairs;
    "mpwatch_host_cpu_account_seconds_total" Counter Seconds ["account"] "CPU time of all CPUs by account; the accounts sum to the elapsed time of all CPUs." cpu_accounts;
    "mpwatch_energy_info" Gauge Count ["source", "idle"] "Sources of the energy figures and of the idle power; always 1." |s, emit| if let Some(e) = &s.energy { emit(&[e.source.as_str(), e.idle.as_str()], 1.0) };
    "mpwatch_zone_joules_total" Counter Joules ["zone"] "Energy of a zone, such as a RAPL package, since tracing began; zones do not overlap." |s, emit| zones(s, |zone| emit(&[&zone.zone], zone.zone_uj.joules()));
    "mpwatch_zone_part_joules_total" Counter Joules ["zone", "part"] "Energy of a zone by use; the parts sum to mpwatch_zone_joules_total." |s, emit| zones(s, |zone| zone.parts().into_iter().for_each(|(part, _, energy)| emit(&[&zone.zone, part], energy.joules())));
    "mpwatch_zone_lost_windows_total" Counter Count ["zone"] "Windows (times between two readings of a zone's counter) whose energy is unknown; no total includes them." |s, emit| zones(s, |zone| emit(&[&zone.zone], zone.windows_lost as f64));
    "mpwatch_zone_lost_seconds_total" Counter Seconds ["zone"] "Total length of the windows whose energy is unknown." |s, emit| zones(s, |zone| emit(&[&zone.zone], zone.lost_ns.seconds()));
    "mpwatch_zone_overlapping_joules_total" Counter Joules ["zone"] "Energy of a zone that contains other zones or is inside one; never add it to another zone." |s, emit| s.energy.iter().flat_map(|e| &e.shown).for_each(|zone| emit(&[&zone.zone], zone.zone_uj.joules()));
    "mpwatch_kernel_records_total" Counter Count [] "Final records (last reports of the BPF programs on a flow) that were to be sent." |s, emit| emit(&[], s.counters.records as f64);
    "mpwatch_kernel_records_received_total" Counter Count [] "Final records that arrived." |s, emit| emit(&[], s.counters.records_received as f64);
    "mpwatch_kernel_mapping_problems_total" Counter Count ["problem"] "DSS mapping errors in the network namespaces of mpwatch and of the processes that own connections." mapping_problems;
    "mpwatch_mptcp_mib_total" Counter Count ["counter"] "The kernel's counters of MPTCP (MPTcpExt, as nstat prints them) in the network namespaces of mpwatch and of the processes that own connections." |s, emit| s.counters.mptcp_mib.iter().for_each(|(counter, count)| emit(&[counter], *count as f64));
    "mpwatch_kernel_synack_retransmits_total" Counter Count [] "SYN-ACKs retransmitted." |s, emit| emit(&[], s.counters.synack_retransmits as f64);
    "mpwatch_loss_ring_full_recovered_total" Counter Count [] "Final records that did not fit the ring buffer and arrived late." |s, emit| emit(&[], s.losses.ring_full_recovered as f64);
    "mpwatch_loss_records_total" Counter Count [] "Final records lost; those flows end with their last sample." |s, emit| emit(&[], s.losses.records_lost as f64);
    "mpwatch_loss_sent_bytes_total" Counter Bytes [] "Payload sent by flows whose final record was lost, or that could not be traced." |s, emit| emit(&[], s.losses.lost_bytes_sent.0 as f64);
    "mpwatch_loss_received_bytes_total" Counter Bytes [] "Payload received by flows whose final record was lost, or that could not be traced." |s, emit| emit(&[], s.losses.lost_bytes_received.0 as f64);
    "mpwatch_loss_storage_failed_total" Counter Count [] "Failed attempts to trace a socket, because the kernel had no memory; the next event of the socket tries again." |s, emit| emit(&[], s.losses.storage_failed as f64);
    "mpwatch_loss_ledger_full_total" Counter Count [] "Sockets whose CPU time is unknown because the ledger was full." |s, emit| emit(&[], s.losses.ledger_full as f64);
    "mpwatch_loss_delay_samples_total" Counter Count [] "Delay samples that did not fit their ring buffer; bottleneck verdicts take longer." |s, emit| emit(&[], s.losses.delay_samples_lost as f64);
    "mpwatch_loss_store_snapshots_total" Counter Count [] "Snapshots skipped by the store." |s, emit| emit(&[], s.losses.store_snapshots_dropped as f64);
    "mpwatch_loss_store_flows_total" Counter Count [] "Connections that could not be written to the store." |s, emit| emit(&[], s.losses.store_flows_lost as f64);
    "mpwatch_loss_store_samples_total" Counter Count [] "Samples of long connections that could not be written to the store." |s, emit| emit(&[], s.losses.store_samples_lost as f64);
    "mpwatch_loss_energy_windows_broken_total" Counter Count [] "Windows whose energy was charged to no account, because of a bug in mpwatch." |s, emit| emit(&[], s.losses.energy_windows_broken as f64);
    "mpwatch_loss_events_missed_total" Counter Count [] "Events missed because they occurred while the same BPF program was running on the same CPU; no total depends on them." |s, emit| emit(&[], s.losses.events_missed as f64);
    "mpwatch_loss_decode_errors_total" Counter Count [] "Records that could not be decoded." |s, emit| emit(&[], s.losses.decode_errors as f64);
    "mpwatch_loss_vanished_total" Counter Count [] "Flows that disappeared without a final record." |s, emit| emit(&[], s.losses.vanished as f64);
    "mpwatch_loss_timeline_dropped_total" Counter Count [] "Timeline entries discarded." |s, emit| emit(&[], s.losses.timeline_dropped as f64);
    "mpwatch_loss_subflows_dropped_total" Counter Count [] "Ended subflows that connections no longer list; the sums of a connection include them." |s, emit| emit(&[], s.losses.subflows_dropped as f64);
    "mpwatch_loss_namespaces_unreadable_total" Counter Count [] "Network namespaces that could not be searched for connections opened before mpwatch started." |s, emit| emit(&[], s.losses.namespaces_unreadable as f64);
    "mpwatch_loss_connections_unreported_total" Counter Count [] "Connections that are not in the report of a recording; 0 in a daemon, which makes no report." |s, emit| emit(&[], s.losses.connections_unreported as f64);
    "mpwatch_loss_ticks_failed_total" Counter Count [] "Snapshots that could not be read from the kernel." |s, emit| emit(&[], s.losses.ticks_failed as f64);
}

fn pairs(snapshot: &Snapshot, emit: &mut Emit<'_>) {
    let counts = snapshot.open_counts();
    for (verdict, count) in Verdict::ALL.into_iter().zip(counts.pairs) {
        emit(&[verdict.as_str()], count as f64);
    }
}

fn connections(snapshot: &Snapshot, emit: &mut Emit<'_>) {
    // A socket may close between two reads. Its connection is then open in a state that only closed sockets have, and counts as `unknown`.
    let is_open =
        |state: &TcpState| !matches!(state, TcpState::TimeWait | TcpState::Close | TcpState::Listen);
    let states = || TcpState::ALL.into_iter().zip(snapshot.open_counts().states);
    let others: i64 = states().filter(|(state, _)| !is_open(state)).map(|(_, count)| count).sum();
    for (state, count) in states().filter(|(state, _)| is_open(state)) {
        let others = if state == TcpState::Unknown { others } else { 0 };
        emit(&[state.as_str()], (count + others) as f64);
    }
}

fn cpu_accounts(snapshot: &Snapshot, emit: &mut Emit<'_>) {
    let accounts = snapshot.cpus.iter().flat_map(|cpus| CpuAccounts::parts(cpus));
    accounts.for_each(|(account, _, time)| emit(&[account], time.seconds()));
}

fn mapping_problems(snapshot: &Snapshot, emit: &mut Emit<'_>) {
    let problems = snapshot.counters.mapping_problems;
    emit(&["invalid"], problems.invalid as f64);
    emit(&["bad_checksum"], problems.bad_checksum as f64);
}

fn zones<'a>(snapshot: &'a Snapshot, each: impl FnMut(&'a ZoneEnergy)) {
    snapshot.energy.iter().flat_map(|energy| &energy.zones).for_each(each);
}
