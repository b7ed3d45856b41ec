// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoded events of the kernel. They are the tracker's only input, so a replay gives the same report. All times are on the boot clock;
//! [`Start`] has the calendar time of boot-clock zero.

mod tcp;

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::flow::elimination::EliminationRecord;
use crate::host::energy::power::MachinePower;
use crate::host::energy::window::EnergyWindow;
use crate::host::machine::{Host, KernelCounters, Losses, Overhead};
pub use crate::host::names::{CgroupName, NetnsName, PodName};
use crate::host::setup::Setup;
use crate::id::{NetnsCookie, SocketCookie, SubflowId, Token};
use crate::kernel::clock::ClockChange;
use crate::kernel::cpu::{CpuAccounts, CpuSampling, CpuTimes, LedgerMode};
use crate::kernel::endpoint::{Interface, Name};
use crate::kernel::histogram::RttHistogram;
use crate::kernel::lifecycle::TcpState;
use crate::kernel::sample::SampleBatch;
use crate::unit::{Bytes, Micros, Nanos};
use crate::why::answer::Explanation;

pub use tcp::{MIN_STALL, MIN_WINDOW, Stall, TcpCounters, Waiting};

/// An event, or a value that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "passed by reference; boxing would allocate for every record")]
pub enum KernelEvent {
    /// The first event of every stream.
    Start(Start),
    /// The record of a subflow, from a snapshot or final.
    Subflow(SubflowRecord),
    /// The record of a connection, from a snapshot or final.
    Connection(ConnectionRecord),
    /// The subflow has not changed since its previous record.
    SubflowUnchanged(SubflowId),
    /// The connection whose socket has this cookie has not changed since its previous record.
    ConnectionUnchanged(SocketCookie),
    /// Delay samples of a subflow.
    Samples(SampleBatch),
    /// The name of a network namespace.
    Netns(NetnsName),
    /// The path of a control group.
    Cgroup(CgroupName),
    /// The pod of a control group.
    Pod(PodName),
    /// A step of elimination. It is not a kernel event: `mpwatch control`, and a daemon with elimination, record it.
    Elimination(EliminationRecord),
    /// Why a connection has one path or fell back. mpwatch has read the configuration of its network namespace.
    Explanation(Explanation),
    /// The calendar clock was set, or is being slewed.
    Clock(ClockChange),
    /// All events up to this time have been reported.
    Tick(Tick),
}

/// The start of a stream: the machine, the time, and the supported measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The machine.
    pub host: Host,
    /// Calendar time, in nanoseconds since 1970, of boot-clock zero.
    pub boot_epoch_ns: i64,
    /// Boot-clock time at which tracing began.
    pub at: Nanos,
    /// Labels and settings of the run.
    pub setup: Arc<Setup>,
    /// Measurements that this kernel supports.
    pub traces: Traces,
    /// Whether evaluation is suspended while verdicts are stable. Recorded, so that a replay evaluates in the same way.
    pub backoff: bool,
    /// When CPU time is accounted.
    pub ledger: LedgerMode,
    /// The energy sources of the machine. `None`: energy is not measured.
    pub machine: Option<MachinePower>,
}

impl Start {
    /// Calendar time at which tracing began.
    pub fn began(&self) -> Timestamp {
        let nanos = i128::from(self.boot_epoch_ns) + i128::from(self.at.0);
        Timestamp::from_nanosecond(nanos).unwrap_or(Timestamp::MAX)
    }
}

/// Measurements that need a hook that some kernels lack. `false`: outputs show `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "one for each hook")]
pub struct Traces {
    /// Causes of retransmissions (`tcp_retransmit_skb`).
    pub retransmits: bool,
    /// Scheduler rounds (`mptcp_subflow_get_send`, with the ledger).
    pub scheduler: bool,
    /// RTT histograms and stalls (`tcp_probe`).
    pub segments: bool,
    /// CPU time (`sched_switch` and others).
    pub ledger: bool,
    /// CPU time of system calls (`sock_send_length`, `sock_recv_length`).
    pub calls: bool,
    /// Delay samples, from which bottlenecks are found (`tcp_probe`, if detection is enabled).
    pub samples: bool,
}

impl Traces {
    /// The measurements of a kernel that has every hook.
    pub const ALL: Self =
        Self { retransmits: true, scheduler: true, segments: true, ledger: true, calls: true, samples: true };
}

/// The end of a sampling interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Boot-clock time of the tick.
    pub at: Nanos,
    /// Time in which the machine was suspended since the previous tick.
    pub suspended: Nanos,
    /// Losses since the start of tracing.
    pub losses: Losses,
    /// Host-wide counters since the start of tracing.
    pub counters: KernelCounters,
    /// Accounts of each CPU since the start of tracing. With a sampled ledger, only the time in its windows. Empty: there is no ledger.
    pub cpus: Vec<CpuAccounts>,
    /// Input for estimates between the windows of a sampled ledger. `None`: the ledger is exact, or there is no ledger.
    pub sampling: Option<CpuSampling>,
    /// Energy since the previous tick. `None`: energy is not measured.
    pub energy: Option<EnergyWindow>,
    /// CPU time that mpwatch itself uses. `None`: not measured.
    pub overhead: Option<Overhead>,
    /// Upper bound of the error of the calendar clock. `None`: the clock is not synchronized, or the error is unknown.
    pub clock_error: Option<Nanos>,
}

/// The MPTCP socket of a subflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MskView {
    /// Cookie of the MPTCP socket; zero until the kernel has assigned one.
    pub cookie: SocketCookie,
    /// Local token.
    pub token: Token,
    /// Token of the peer; zero while its key is unknown.
    pub remote_token: Token,
    /// State of the MPTCP socket.
    pub state: TcpState,
    /// Whether this host accepted the connection. Valid once the connection is established.
    pub server_side: bool,
    /// Whether the connection fell back to plain TCP.
    pub fallback: bool,
    /// Payload bytes. `None`: see `bytes_are_apart`; or a fallback that a kernel before 6.5 does not count (its only subflow has all bytes).
    pub bytes: Option<MskBytes>,
    /// Whether this record lacks the payload bytes because the MPTCP socket's own records have them, or because they are counted as lost.
    pub bytes_are_apart: bool,
    /// Number of ADD_ADDR options that this host has sent.
    pub addresses_announced: u8,
    /// Number of accepted ADD_ADDR options of the peer.
    pub addresses_accepted: u8,
    /// Payload that is not yet assigned to a subflow.
    #[serde(default)]
    pub unsent: Bytes,
    /// Payload without a DATA_ACK.
    #[serde(default)]
    pub unacked: Bytes,
    /// The peer's receive window, counted from the first byte without a DATA_ACK, so that data in flight does not reduce it. `None`: unknown.
    #[serde(default)]
    pub window: Option<Bytes>,
    /// Last address that the peer announced, with its id.
    pub announced: Option<(u8, SocketAddr)>,
    /// Ids in the last REMOVE_ADDR received.
    pub removed_ids: Vec<u8>,
}

/// Byte counters of an MPTCP socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MskBytes {
    /// Payload sent, each byte counted once (`mptcpi_bytes_sent`).
    pub sent: Bytes,
    /// Payload received in order (`mptcpi_bytes_received`).
    pub received: Bytes,
    /// Payload acknowledged by DATA_ACK, with one byte for the DATA_FIN (`mptcpi_bytes_acked`).
    pub acked: Bytes,
    /// Payload retransmitted by the MPTCP timer (`mptcpi_bytes_retrans`). `None`: a kernel before 6.5.
    pub retransmitted: Option<Bytes>,
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Process {
    /// Process id, in the root pid namespace.
    pub pid: u32,
    /// Name of the process (not of the thread), at most 15 bytes.
    pub comm: Name,
}

/// Number of work units of a packet. One KiB of payload is one work unit.
pub const WORK_PER_PACKET: u64 = 32;

/// The record of one subflow, or of one plain TCP connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "flags of the kernel, decoded")]
pub struct SubflowRecord {
    /// When the kernel's state was read.
    pub at: Nanos,
    /// Its id.
    pub id: SubflowId,
    /// Cookie of its network namespace.
    pub netns: NetnsCookie,
    /// Inode of the namespace, as `readlink /proc/PID/ns/net` shows it.
    pub netns_inode: u32,
    /// Control group id (inode in the cgroup2 tree) of the connection; zero: none.
    pub cgroup: u64,
    /// The MPTCP socket of its connection. `None`: plain TCP.
    pub msk: Option<MskView>,
    /// When its SYN was sent or, for an accepted subflow, its SYN-ACK. `None`: opened before tracing began.
    pub created: Option<Nanos>,
    /// When it reached ESTABLISHED and, for an MP_JOIN, the peer accepted it. `None`: not yet, or before tracing began.
    pub established: Option<Nanos>,
    /// When the BPF programs first traced it.
    pub first_seen: Nanos,
    /// When it reached CLOSE.
    pub closed: Option<Nanos>,
    /// Time from SYN to ESTABLISHED or, for an accepted subflow, from SYN-ACK to ACK. `None`: not traced, or after a SYN cookie.
    pub handshake: Option<Micros>,
    /// Payload of the connection in both directions when this subflow was established. `None`: not traced.
    pub joined_bytes: Option<Bytes>,
    /// Payload in its SYN (TCP Fast Open), which the connection's counters do not include.
    pub syn_bytes: Bytes,
    /// When this subflow had carried a tenth of the connection's payload, and the connection's payload then. `None`: not yet, or not traced.
    pub effective: Option<(Nanos, Bytes)>,
    /// Number of scheduler rounds that considered it.
    pub considered: u64,
    /// Number of scheduler rounds after which it had been assigned data.
    pub picked: u64,
    /// Time of the last progress of the connection on this subflow. `None`: no progress was observed.
    pub progress: Option<Nanos>,
    /// Whether sent data was unacknowledged at the time `progress`.
    pub unacked: bool,
    /// Data, window and timers for which it waits. They do not change after it has closed.
    #[serde(default)]
    pub waiting: Waiting,
    /// The latest stalls, oldest first.
    pub stalls: Vec<Stall>,
    /// Number of segments retransmitted in recovery, without a timeout.
    pub retransmits_fast: u32,
    /// Number of segments retransmitted after a timeout.
    pub retransmits_timeout: u32,
    /// Number of segments retransmitted as tail loss probes.
    pub retransmits_probe: u32,
    /// Work since tracing began, if the ledger is sampled: [`WORK_PER_PACKET`] for each packet received (after GRO) and each change of state,
    /// and 1 for each KiB of payload in both directions.
    pub work: u64,
    /// The part of `work` that was done in windows of the ledger.
    pub window_work: u64,
    /// CPU time for this subflow alone. With a sampled ledger, only the time in its windows. `None`: there is no ledger, or it was full.
    pub cpu: Option<CpuTimes>,
    /// Kernel counters. Final if `last` is set.
    pub tcp: TcpCounters,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// MPTCP address id of this host.
    pub local_id: u8,
    /// MPTCP address id of the peer.
    pub remote_id: u8,
    /// Interface of the route. `None`: the socket has no cached route.
    pub interface: Option<Interface>,
    /// Interface through which the last segments arrived. `None`: unknown.
    pub incoming_interface: Option<Name>,
    /// Name of the congestion control. `None`: unknown.
    pub congestion: Option<Name>,
    /// Owner of a plain TCP socket.
    pub owner: Option<Process>,
    /// Socket state.
    pub state: TcpState,
    /// errno that the socket reported; zero: no error.
    pub error: u32,
    /// MP_TCPRST reason (RFC 8684 section 3.6); zero: no reason.
    pub reset_reason: u8,
    /// Length of the TCP header with its fixed options, in bytes.
    pub tcp_header: u16,
    /// Whether its opening was traced. `false`: it was open before tracing began.
    pub seen_open: bool,
    /// Whether it opened the connection (MP_CAPABLE).
    pub mp_capable: bool,
    /// Whether it joined the connection or requested to join (MP_JOIN).
    pub mp_join: bool,
    /// Whether its SYN requested MPTCP, or an MPTCP listener accepted it.
    pub asked_mptcp: bool,
    /// Whether the SYN that was answered had no MP_CAPABLE, because the kernel omits the option after unanswered SYNs that had it.
    #[serde(default)]
    pub option_omitted: bool,
    /// Whether this host accepted it.
    pub passive: bool,
    /// Whether the peer or this host requested to use it only as a backup.
    pub backup: bool,
    /// Whether the kernel no longer waits for acknowledgements on it and reinjects its data on other subflows.
    pub stale: bool,
    /// Whether this is the final record.
    pub last: bool,
    /// How it ended.
    pub end: EndFlags,
    /// Histogram of its RTT samples.
    pub rtts: RttHistogram,
}

/// How a subflow ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "flags of the kernel, decoded")]
pub struct EndFlags {
    /// Whether a reset was sent.
    pub reset_sent: bool,
    /// Whether a reset was received.
    pub reset_received: bool,
    /// Whether this host's FIN came first.
    pub fin_sent_first: bool,
    /// Whether the peer's FIN came first.
    pub fin_received_first: bool,
    /// Whether the connection was still established when the subflow ended.
    pub alone: bool,
    /// Whether the peer had removed the address of the subflow (REMOVE_ADDR).
    pub removed_by_peer: bool,
    /// Whether this host had removed the address of the subflow (REMOVE_ADDR).
    pub removed_by_us: bool,
    /// Whether the handshake never completed.
    pub never_established: bool,
    /// Whether the peer's FIN has arrived.
    #[serde(default)]
    pub fin_received: bool,
    /// Whether both ends had acknowledged each other's DATA_FIN when the subflow closed.
    #[serde(default)]
    pub in_order: bool,
}

/// The record of one MPTCP socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// When the kernel's state was read.
    pub at: Nanos,
    /// Cookie of its network namespace.
    pub netns: NetnsCookie,
    /// Inode of the namespace.
    pub netns_inode: u32,
    /// Control group id; zero: none.
    pub cgroup: u64,
    /// When it was opened. `None`: before tracing began.
    pub opened: Option<Nanos>,
    /// When the BPF programs first traced it.
    pub first_seen: Nanos,
    /// When it reached CLOSE.
    pub closed: Option<Nanos>,
    /// The socket.
    pub msk: MskView,
    /// CPU time spent on the connection but on no particular subflow. `None`: there is no ledger, or it was full.
    pub cpu: Option<CpuTimes>,
    /// The process that connected the socket, has it open, or closed it. `None`: unknown so far.
    pub owner: Option<Process>,
    /// Whether this is the final record.
    pub last: bool,
    /// Local and remote address of the initial subflow. `None`: the socket has no addresses yet.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
}
