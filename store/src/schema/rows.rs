// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of each table. Tables, views, insertions and queries all follow from the columns that are declared here.

use std::borrow::Cow;

use jiff::Timestamp;
use mpwatch_model::flow::bottleneck::{DetectionMethod, Evidence, SharedCap, Verdict};
use mpwatch_model::flow::connection::{Connection, Fallback, SecondPath};
use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::series::CounterSample;
use mpwatch_model::flow::subflow::{Closed, Retransmits, Scheduler, Subflow};
use mpwatch_model::host::energy::{FlowEnergy, SnapshotEnergy};
use mpwatch_model::host::machine::{Host, KernelCounters, Losses};
use mpwatch_model::host::names::Pod;
use mpwatch_model::host::setup::Setup;
use mpwatch_model::id::{SocketCookie, SubflowId, Token};
use mpwatch_model::kernel::busy::BusyTimes;
use mpwatch_model::kernel::cpu::{CpuAccounts, CpuTimes};
use mpwatch_model::kernel::event::Process;
use mpwatch_model::unit::{Micros, Nanos};
use mpwatch_model::why::answer::Cause;

use super::columns::{Columns, record};
use super::names::Netns;
use super::values::{Derived, Groups, Ppm, Shared, TextId};

/// A row of a table.
pub(crate) trait TableRow: Columns {
    /// Name of the table.
    const NAME: &'static str;
    /// Columns of the primary key.
    const KEY: &'static str;
}

macro_rules! tables {
    ($($row:ty: $name:literal ($key:literal);)*) => {$(
        impl TableRow for $row {
            const NAME: &'static str = $name;
            const KEY: &'static str = $key;
        }
    )*};
}

tables! {
    RunRow: "run" ("id");
    ConnectionRow<'_>: "connection" ("id");
    SubflowRow<'_>: "subflow" ("connection, place");
    PairRow: "pair" ("connection, a, b");
    EventRow: "event" ("connection, number");
    SampleRow: "sample" ("connection, place, at_ns");
}

/// A run: an uninterrupted period of observation.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunRow {
    pub(crate) id: i64,
    /// State of the host when the row was written.
    pub(crate) host: Host,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    /// Calendar time of boot-clock zero, by which the times of the run are dated.
    pub(crate) boot_epoch_ns: Option<i64>,
    /// Losses of the tracer. Losses of the store have columns of their own.
    pub(crate) losses: Losses,
    pub(crate) counters: KernelCounters,
    pub(crate) cpus: Option<Vec<CpuAccounts>>,
    pub(crate) energy: Option<SnapshotEnergy>,
    pub(crate) snapshots_dropped: u64,
    pub(crate) flows_lost: u64,
    pub(crate) samples_lost: u64,
    /// Why the run is incomplete; [`UNFINISHED`] until the writer has ended it. NULL: the run is complete.
    pub(crate) cut_short: Option<String>,
    pub(crate) setup: Setup,
}

/// `cut_short` of a run while it is written.
pub(crate) const UNFINISHED: &str = "the run has not ended: mpwatch is still writing it, or was killed";

record! {
    RunRow {
        id "id", host "", from "from_ns", to "to_ns", boot_epoch_ns "boot_epoch_ns", losses "losses", counters "counters", cpus "cpus", energy "energy",
        snapshots_dropped "snapshots_dropped", flows_lost "flows_lost", samples_lost "samples_lost", cut_short "cut_short", setup ""
    }
    Host {
        name "host", boot_id "boot_id", kernel "kernel", mpwatch "mpwatch", clock_error "clock_error_ns", missing "missing"
    }
    Setup {
        labels "labels", interval_ms "interval_ms", cpu_model "cpu_model", governor "governor", mptcp_sysctls "mptcp_sysctls"
    }
}

/// A connection. If several runs observed it, they share one row, which has the number of the last run.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRow<'a> {
    pub(crate) id: i64,
    pub(crate) run: i64,
    pub(crate) runs: i64,
    pub(crate) netns: Netns<'a>,
    pub(crate) token: Option<Token>,
    pub(crate) birth: SocketCookie,
    /// When it was opened or first observed.
    pub(crate) began: Timestamp,
    /// Time from `began` until the connection closed or was last observed.
    pub(crate) age: Nanos,
    pub(crate) seen_open: bool,
    pub(crate) closed: bool,
    /// mpwatch observed only a part of its life.
    pub(crate) partly_observed: bool,
    pub(crate) connection: Cow<'a, Connection>,
    pub(crate) bottlenecks: Option<BottleneckColumns>,
    pub(crate) derived: Derived<'a, Connection>,
    /// Number of its last change: see `Key::changed`.
    pub(crate) changed: i64,
}

/// The result of the bottleneck detection for a connection, without the verdicts on pairs.
#[derive(Clone, Debug)]
pub(crate) struct BottleneckColumns {
    pub(crate) method: DetectionMethod,
    pub(crate) groups: Groups,
    /// NULL: there are none.
    pub(crate) shared_caps: Option<Vec<SharedCap>>,
}

record! {
    ConnectionRow<'_> {
        id "id", run "run", runs "runs", netns "netns", token "token", birth "birth", began "began_ns", age "age_ns",
        seen_open "seen_open", closed "closed", partly_observed "partly_observed", connection "", bottlenecks "", derived "", changed "changed"
    }
    Connection {
        remote_token "remote_token", role "role", local "local", remote "remote", process "",
        cgroup "cgroup" as (Option<Shared>), pod "", state "state", protocol "protocol", fallback "", cause "" as (Option<Cause>),
        bytes_sent "bytes_sent", bytes_acked "bytes_acked", bytes_received "bytes_received",
        bytes_reinjected "bytes_reinjected", mptcp_bytes_retransmitted "mptcp_bytes_retransmitted",
        send "send_bps", receive "receive_bps", observed "", flow_class "flow_class", jain_index "jain_index", second_path "", extra_subflows "extra_subflows", outage_since "outage_since_ns"
        ; computed id, token, netns, netns_inode, opened_at, seen_open, age_s, closed_at, bytes_retransmitted, busy, cpu, energy,
        bottlenecks, subflows, dropped_subflows, timeline, partly_observed
    }
    BottleneckColumns { method "bottleneck_method", groups "bottleneck_groups", shared_caps "shared_caps" }
    Observed {
        bytes "observed_bytes", bytes_sent "observed_bytes_sent", duration "observed_ns", active "active_ns",
        wire_bytes_estimate "observed_wire_bytes_estimate"
    }
    Process { pid "pid", comm "comm" }
    Pod {
        namespace "pod_namespace" as (Shared), name "pod_name" as (Shared), uid "pod_uid" as (Shared),
        container "container" as (Option<Shared>)
    }
    Fallback { reason "fallback" }
    Cause {
        id "cause" as (Shared), sentence "cause_sentence" as (Shared), certainty "cause_certainty",
        evidence "cause_evidence", advice "cause_advice" as (Option<Shared>), fix "cause_fix"
    }
    SecondPath {
        after "second_path_after_us", after_bytes "second_path_after_bytes",
        effective_after_bytes "second_path_effective_after_bytes"
    }
}

/// A subflow.
#[derive(Clone, Debug)]
pub(crate) struct SubflowRow<'a> {
    pub(crate) connection: i64,
    /// Position among the subflows of the connection, from 1.
    pub(crate) place: u32,
    pub(crate) subflow: Cow<'a, Subflow>,
    pub(crate) established: Option<Timestamp>,
    pub(crate) derived: Derived<'a, Subflow>,
}

record! {
    SubflowRow<'_> { connection "connection", place "place", subflow "", established "established_at_ns", derived "" }
    Subflow {
        id "", local "local", remote "remote", local_id "local_id", remote_id "remote_id", interface "interface", incoming_interface "incoming_interface",
        congestion_control "congestion_control", initial "initial", backup "backup", progress "progress", progress_since "progress_since_ns", state "state", created_at "created_at_ns",
        handshake "handshake_us", joined_after "joined_after_us", joined_after_bytes "joined_after_bytes",
        bytes_sent "bytes_sent", bytes_acked "bytes_acked", bytes_received "bytes_received",
        bytes_retransmitted "bytes_retransmitted", bytes_refused "bytes_refused", segments_retransmitted "segments_retransmitted", retransmits "",
        rtt "rtt_us", srtt "srtt_us", rttvar "rttvar_us", rtt_min "rtt_min_us", rtt_p50 "rtt_p50_us", rtt_p99 "rtt_p99_us",
        rtt_samples "rtt_samples", cwnd_segments "cwnd_segments", delivery "delivery_bps",
        lost_segments "lost_segments", timeouts "timeouts", send "send_bps", receive "receive_bps", observed "", busy "",
        wire_bytes_sent_estimate "wire_bytes_sent_estimate", wire_bytes_received_estimate "wire_bytes_received_estimate",
        scheduler "", cpu "", energy "", closed ""
        ; computed place, path_failures, share_sent
    }
    SubflowId { cookie "cookie", generation "generation" }
    Retransmits { fast "retransmits_fast", timeout "retransmits_timeout", probe "retransmits_probe" }
    Scheduler { considered "scheduler_considered", picked "scheduler_picked" }
    BusyTimes { total "busy_ns", receive_window "rwnd_limited_ns", send_buffer "sndbuf_limited_ns" }
    CpuTimes {
        syscall "cpu_syscall_ns", rx_softirq "cpu_rx_softirq_ns", tx "cpu_tx_ns", timer "cpu_timer_ns",
        worker "cpu_worker_ns"
    }
    FlowEnergy {
        active "active_uj", lo "lo_uj", hi "hi_uj", full "full_uj", cpu "energy_cpu_ns",
        source "energy_source", convention "energy_convention", idle "energy_idle"
        ; computed j_per_gb
    }
    Closed { at "closed_at_ns", reason "close_reason" }
}

/// The verdict on a pair of subflows, given by their places.
#[derive(Clone, Debug)]
pub(crate) struct PairRow {
    pub(crate) connection: i64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) verdict: Verdict,
    pub(crate) probability: Option<f64>,
    pub(crate) since: Option<Micros>,
    pub(crate) evidence: Option<Evidence>,
}

record! {
    PairRow {
        connection "connection", a "a", b "b", verdict "verdict", probability "probability_ppm" as (Option<Ppm>),
        since "since_us", evidence ""
    }
    Evidence {
        queue_concordance "queue_concordance_ppm" as (Option<Ppm>), burst_concordance "burst_concordance_ppm" as (Option<Ppm>),
        queue_signal "queue_signal_ppm" as (Option<Ppm>), rate_correlation "rate_correlation_ppm" as (Option<Ppm>),
        sum_variation "sum_variation_ppm" as (Option<Ppm>), rate_variation "rate_variation_ppm" as (Option<Ppm>),
        least_variation "least_variation_ppm" as (Option<Ppm>), loss_coincidence "loss_coincidence_ppm" as (Option<Ppm>),
        busy_a "busy_a_ppm" as (Ppm), busy_b "busy_b_ppm" as (Ppm), coverage "coverage_ppm" as (Ppm), window "window_us",
        connections "connections", pooled_paths "pooled_paths", conservation_ratio "conservation_ratio_ppm" as (Option<Ppm>),
        link_rate "link_bps"
    }
}

/// An entry of a timeline that does not follow from columns of the connection or its subflows.
#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) connection: i64,
    pub(crate) number: i64,
    pub(crate) at: Timestamp,
    pub(crate) source: String,
    pub(crate) event: String,
    pub(crate) subflow: Option<TextId>,
    /// The other fields of the event, as JSON.
    pub(crate) detail: Option<String>,
}

record! {
    EventRow {
        connection "connection", number "number", at "at_ns", source "source", event "event", subflow "subflow",
        detail "detail"
    }
}

/// Counters of a subflow at one time.
#[derive(Clone, Debug)]
pub(crate) struct SampleRow {
    pub(crate) connection: i64,
    pub(crate) place: u32,
    pub(crate) sample: CounterSample,
}

record! {
    SampleRow { connection "connection", place "place", sample "" }
    CounterSample {
        at "at_ns", bytes_sent "bytes_sent", bytes_received "bytes_received",
        bytes_retransmitted "bytes_retransmitted", srtt "srtt_us", cwnd_segments "cwnd_segments", active "active_uj"
    }
}
