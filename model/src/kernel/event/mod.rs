// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoded events of the kernel: the tracker's only input, so a replay gives the same report. All times are on the boot clock; [`Start`] has the
//! calendar time of its zero.

mod tcp;
mod traces;

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::flow::elimination::EliminationRecord;
use crate::host::energy::power::MachinePower;
use crate::host::energy::window::EnergyWindow;
use crate::host::machine::{Host, KernelCounters, Losses};
pub use crate::host::names::{CgroupName, NetnsName, PodName};
use crate::host::overhead::Overhead;
use crate::host::setup::Setup;
use crate::id::{NetnsCookie, SocketCookie, SubflowId, Token};
use crate::kernel::clock::ClockChange;
use crate::kernel::cpu::{CpuAccounts, CpuSampling, CpuTimes, LedgerMode};
use crate::kernel::endpoint::{Interface, Name};
use crate::kernel::histogram::RttHistogram;
use crate::kernel::lifecycle::TcpState;
use crate::kernel::sample::SampleBatch;
use crate::unit::{Bytes, Micros, Nanos};

pub use tcp::{MIN_STALL, MIN_WINDOW, Stall, TcpCounters, Waiting};
pub use traces::Traces;

/// Something that happened or was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "passed by reference; boxing would allocate for every record")]
pub enum KernelEvent {
    /// First event of every stream.
    Start(Start),
    /// A subflow, in a snapshot or final.
    Subflow(SubflowRecord),
    /// A connection, in a snapshot or final.
    Connection(ConnectionRecord),
    /// A subflow has not changed since its previous record.
    SubflowUnchanged(SubflowId),
    /// A connection, by its socket's cookie, has not changed since its previous record.
    ConnectionUnchanged(SocketCookie),
    /// RTT samples of a subflow.
    Samples(SampleBatch),
    /// The name of a network namespace.
    Netns(NetnsName),
    /// The path of a control group.
    Cgroup(CgroupName),
    /// The pod of a control group.
    Pod(PodName),
    /// A step of elimination: not a kernel event. Recorded only by `mpwatch control` and by a daemon that eliminates.
    Elimination(EliminationRecord),
    /// The calendar was set, or is being slewed.
    Clock(ClockChange),
    /// All events up to this time have been reported.
    Tick(Tick),
}

/// Start of the stream: the machine, the time, and the traced measurements.
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

/// End of a sampling interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Boot-clock time.
    pub at: Nanos,
    /// How long the machine was suspended since the previous tick.
    pub suspended: Nanos,
    /// Losses since the start of tracing.
    pub losses: Losses,
    /// Host-wide counters since the start of tracing.
    pub counters: KernelCounters,
    /// Accounts of each CPU since the start of tracing; with a sampled ledger, in its windows. Empty: there is no ledger.
    pub cpus: Vec<CpuAccounts>,
    /// Input for estimates between the windows of a sampled ledger. `None`: the ledger is exact, or there is none.
    pub sampling: Option<CpuSampling>,
    /// Energy since the previous tick. `None`: energy is not measured.
    pub energy: Option<EnergyWindow>,
    /// CPU time that mpwatch itself uses. `None`: not measured.
    pub overhead: Option<Overhead>,
    /// Upper bound of the error of the calendar clock. `None`: it is not synchronized, or the error is unknown.
    pub clock_error: Option<Nanos>,
}

/// The MPTCP socket behind a subflow.
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
    /// This host accepted the connection. Valid once established.
    pub server_side: bool,
    /// Fell back to plain TCP.
    pub fallback: bool,
    /// Payload bytes. `None`: `bytes_are_apart`, or a fallback on a kernel before 6.5, which does not count them: its only subflow carried them
    /// all.
    pub bytes: Option<MskBytes>,
    /// The payload bytes are in the records of the MPTCP socket only, or are counted as lost.
    pub bytes_are_apart: bool,
    /// ADD_ADDR options that this host has sent.
    pub addresses_announced: u8,
    /// ADD_ADDR options of the peer that were accepted.
    pub addresses_accepted: u8,
    /// Payload that is not assigned to a subflow yet.
    #[serde(default)]
    pub unsent: Bytes,
    /// Payload without a DATA_ACK.
    #[serde(default)]
    pub unacked: Bytes,
    /// The peer's receive window, from the first byte without a DATA_ACK: data in flight does not reduce it. `None`: unknown.
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
    /// Payload sent, each byte once (`mptcpi_bytes_sent`).
    pub sent: Bytes,
    /// Payload received in order (`mptcpi_bytes_received`).
    pub received: Bytes,
    /// Acknowledged by DATA_ACK, the DATA_FIN included (`mptcpi_bytes_acked`).
    pub acked: Bytes,
    /// Retransmitted by the MPTCP timer (`mptcpi_bytes_retrans`). `None`: a kernel before 6.5.
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

/// Work units of a packet. A KiB of payload is one unit.
pub const WORK_PER_PACKET: u64 = 32;

/// The record of one subflow (or of one plain TCP connection).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "flags of the kernel, decoded")]
pub struct SubflowRecord {
    /// When it was read.
    pub at: Nanos,
    /// Its id.
    pub id: SubflowId,
    /// Cookie of its network namespace.
    pub netns: NetnsCookie,
    /// Inode of the namespace, as `readlink /proc/PID/ns/net` shows it.
    pub netns_inode: u32,
    /// Control group id (inode in the cgroup2 tree) of the connection; zero: none.
    pub cgroup: u64,
    /// The connection; `None`: plain TCP.
    pub msk: Option<MskView>,
    /// When its SYN, or the SYN-ACK of an accepted subflow, was sent. `None`: opened before tracing began.
    pub created: Option<Nanos>,
    /// When it reached ESTABLISHED and, for an MP_JOIN, the peer accepted it. `None`: never, or before tracing began.
    pub established: Option<Nanos>,
    /// When the programs first traced it.
    pub first_seen: Nanos,
    /// When it reached CLOSE.
    pub closed: Option<Nanos>,
    /// SYN to ESTABLISHED; for an accepted subflow SYN-ACK to ACK. `None`: not traced, or after a SYN cookie.
    pub handshake: Option<Micros>,
    /// Payload of the connection in both directions when this subflow was established. `None`: not traced.
    pub joined_bytes: Option<Bytes>,
    /// Payload in its SYN (TCP Fast Open), which the connection's counters do not include.
    pub syn_bytes: Bytes,
    /// When this subflow had carried a tenth of the connection's payload, and the connection's payload then.
    pub effective: Option<(Nanos, Bytes)>,
    /// Scheduler rounds that considered it.
    pub considered: u64,
    /// Scheduler rounds after which it had been assigned data.
    pub picked: u64,
    /// Last progress of the connection on this subflow.
    pub progress: Option<Nanos>,
    /// Whether sent data was unacknowledged at the time `progress`.
    pub unacked: bool,
    /// Data, window and timers for which it waits. Constant after it has closed.
    #[serde(default)]
    pub waiting: Waiting,
    /// The latest stalls, oldest first.
    pub stalls: Vec<Stall>,
    /// Segments retransmitted in recovery, without a timeout.
    pub retransmits_fast: u32,
    /// Segments retransmitted after a timeout.
    pub retransmits_timeout: u32,
    /// Segments retransmitted as tail loss probes.
    pub retransmits_probe: u32,
    /// Work since tracing began, if the ledger is sampled: [`WORK_PER_PACKET`] for each packet received (after GRO) and each change of state,
    /// and 1 for each KiB of payload in both directions.
    pub work: u64,
    /// The part of `work` in windows of the ledger.
    pub window_work: u64,
    /// CPU time for this subflow alone; with a sampled ledger, in its windows. `None`: there is no ledger, or it was full.
    pub cpu: Option<CpuTimes>,
    /// Kernel counters, final if `last`.
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
    /// errno that the socket reported; zero: none.
    pub error: u32,
    /// MP_TCPRST reason (RFC 8684 section 3.6); zero: none.
    pub reset_reason: u8,
    /// TCP header with its fixed options, in bytes.
    pub tcp_header: u16,
    /// Its opening was traced. `false`: it was open before tracing began.
    pub seen_open: bool,
    /// Opened the connection (MP_CAPABLE).
    pub mp_capable: bool,
    /// Joined the connection, or asked to (MP_JOIN).
    pub mp_join: bool,
    /// Asked for MPTCP in its SYN, or accepted by an MPTCP listener.
    pub asked_mptcp: bool,
    /// Accepted by this host.
    pub passive: bool,
    /// The peer or this host asked to use it as a backup only.
    pub backup: bool,
    /// The kernel no longer waits for acknowledgements here and reinjects elsewhere.
    pub stale: bool,
    /// A final record.
    pub last: bool,
    /// How it ended.
    pub end: EndFlags,
    /// Histogram of its RTTs.
    pub rtts: RttHistogram,
}

/// How a subflow ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "flags of the kernel, decoded")]
pub struct EndFlags {
    /// A reset was sent.
    pub reset_sent: bool,
    /// A reset was received.
    pub reset_received: bool,
    /// This host's FIN came first.
    pub fin_sent_first: bool,
    /// The peer's FIN came first.
    pub fin_received_first: bool,
    /// The connection was still established when the subflow ended.
    pub alone: bool,
    /// The peer had removed its address (REMOVE_ADDR).
    pub removed_by_peer: bool,
    /// This host had removed its address (REMOVE_ADDR).
    pub removed_by_us: bool,
    /// The handshake never completed.
    pub never_established: bool,
    /// The peer's FIN has arrived.
    #[serde(default)]
    pub fin_received: bool,
}

/// The record of one MPTCP socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// When it was read.
    pub at: Nanos,
    /// Cookie of its network namespace.
    pub netns: NetnsCookie,
    /// Inode of the namespace.
    pub netns_inode: u32,
    /// Control group id; zero: none.
    pub cgroup: u64,
    /// When it was opened. `None`: before tracing began.
    pub opened: Option<Nanos>,
    /// When the programs first traced it.
    pub first_seen: Nanos,
    /// When it reached CLOSE.
    pub closed: Option<Nanos>,
    /// The socket.
    pub msk: MskView,
    /// CPU time for the connection as a whole. `None`: there is no ledger, or it was full.
    pub cpu: Option<CpuTimes>,
    /// The process that connected it, or has it open, or closed it. `None`: unknown so far.
    pub owner: Option<Process>,
    /// A final record.
    pub last: bool,
    /// Local and remote address of the initial subflow. `None`: the kernel has none yet.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
}
