// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel side tells, decoded. This stream is all that the tracker ever sees, so a recording of it replays to
//! the same report. Times are of the boot clock; a [`Start`] ties them to the calendar once.

use std::net::SocketAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cpu::{CpuAccounts, CpuTimes};
use crate::endpoint::{Interface, Name};
use crate::energy::power::MachinePower;
use crate::energy::window::EnergyWindow;
use crate::histogram::RttHistogram;
use crate::host::{Host, KernelCounters, Losses};
use crate::id::{NetnsCookie, SocketCookie, SubflowId, Token};
use crate::lifecycle::TcpState;
use crate::sample::SampleBatch;
use crate::unit::{Bytes, Micros, Nanos};

/// One thing that happened or was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "passed by reference; boxing would allocate for every record")]
pub enum KernelEvent {
    /// First event of every stream.
    Start(Start),
    /// A subflow, sampled or final.
    Subflow(SubflowRecord),
    /// A connection, sampled or final.
    Connection(ConnectionRecord),
    /// A subflow is as its last record says, but for the time.
    SubflowUnchanged(SubflowId),
    /// A connection (its socket's cookie) is as its last record says, but for the time.
    ConnectionUnchanged(SocketCookie),
    /// Points of a subflow's path over time.
    Samples(SampleBatch),
    /// The name of a namespace became known.
    Netns(NetnsName),
    /// The path of a control group became known.
    Cgroup(CgroupName),
    /// Everything up to this time has been told: time for a snapshot.
    Tick(Tick),
}

/// Where and when the stream begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The machine.
    pub host: Host,
    /// Calendar time, in nanoseconds since 1970, of boot-clock zero.
    pub boot_epoch_ns: i64,
    /// Boot-clock time at which tracing began.
    pub at: Nanos,
    /// What this kernel lets us trace.
    pub traces: Traces,
    /// Evaluation of connections with stable verdicts is suspended for a time (`engine::bottleneck`). Recordings store it so that a replay
    /// evaluates when the live run did; those of older versions, in which it is missing, are evaluated at every interval.
    #[serde(default)]
    pub backoff: bool,
    /// The machine whose energy is divided. `None`: nobody looks at its energy.
    #[serde(default)]
    pub machine: Option<MachinePower>,
}

impl Start {
    /// Calendar time at which tracing began.
    pub fn began(&self) -> Timestamp {
        let nanos = i128::from(self.boot_epoch_ns) + i128::from(self.at.0);
        Timestamp::from_nanosecond(nanos).unwrap_or(Timestamp::MAX)
    }
}

/// What is known only with a hook that a kernel may lack (`false`: outputs show `null` there), and how samples are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "one for each hook")]
pub struct Traces {
    /// Causes of retransmissions (`tcp_retransmit_skb`).
    pub retransmits: bool,
    /// Scheduler rounds (`mptcp_subflow_get_send`).
    pub scheduler: bool,
    /// RTT samples, stalls (`tcp_probe`).
    pub segments: bool,
    /// CPU time (`sched_switch` and others).
    #[serde(default)]
    pub ledger: bool,
    /// CPU time of system calls (`sock_send_length`, `sock_recv_length`).
    #[serde(default)]
    pub calls: bool,
    /// SampleBatch, from which bottlenecks are found (`tcp_probe`, and a setting).
    #[serde(default)]
    pub samples: bool,
}

impl Traces {
    /// A kernel that has every hook.
    pub const ALL: Self =
        Self { retransmits: true, scheduler: true, segments: true, ledger: true, calls: true, samples: true };
}

/// End of one round of reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Boot-clock time of the end of the round.
    pub at: Nanos,
    /// Losses since the start of tracing.
    pub losses: Losses,
    /// Host-wide counters of the MPTCP tracepoints since the start of tracing.
    pub counters: KernelCounters,
    /// Where the time of each CPU has gone since the start of tracing. Empty: there is no ledger.
    #[serde(default)]
    pub cpus: Vec<CpuAccounts>,
    /// Energy since the tick before. `None`: nobody looks at it.
    #[serde(default)]
    pub energy: Option<EnergyWindow>,
}

/// The MPTCP socket behind a subflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MskView {
    /// Zero until the kernel has given it one.
    pub cookie: SocketCookie,
    /// Local token.
    pub token: Token,
    /// Token of the peer; zero before its key is known.
    pub remote_token: Token,
    /// State of the MPTCP socket.
    pub state: TcpState,
    /// This host accepted the connection. Only meaningful once established.
    pub server_side: bool,
    /// Goes on as plain TCP.
    pub fallback: bool,
    /// Payload bytes. `None`: this kernel counts none (before 6.5), and the connection fell back to TCP, so that its sequence
    /// numbers tell nothing; its one subflow has carried everything.
    pub bytes: Option<MskBytes>,
    /// ADD_ADDR options that this host has sent.
    pub addresses_announced: u8,
    /// ADD_ADDR options of the peer that were accepted.
    pub addresses_accepted: u8,
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
    /// Retransmitted by the MPTCP timer (`mptcpi_bytes_retrans`). `None`: not counted by this kernel (before 6.5).
    pub retransmitted: Option<Bytes>,
}

/// The part of `struct tcp_sock` that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpCounters {
    /// Payload sent, retransmissions included (`tcpi_bytes_sent`).
    pub bytes_sent: Bytes,
    /// Acknowledged; counts the SYN of an active open and a FIN as a byte each (`tcpi_bytes_acked`).
    pub bytes_acked: Bytes,
    /// Received; counts a FIN as a byte (`tcpi_bytes_received`).
    pub bytes_received: Bytes,
    /// Retransmitted payload (`tcpi_bytes_retrans`).
    pub bytes_retransmitted: Bytes,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Micros,
    /// Mean deviation of the RTT.
    pub rttvar: Micros,
    /// Windowed minimum RTT; the kernel's "never measured" is `u32::MAX`.
    pub rtt_min: Micros,
    /// RTT of the segment delivered last.
    pub rtt: Micros,
    /// Segments retransmitted, SYN and SYN-ACK included (`tcpi_total_retrans`).
    pub segments_retransmitted: u32,
    /// Segments ever marked lost.
    pub lost: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow-start threshold, in segments.
    pub ssthresh: u32,
    /// Segments delivered, and those of them marked CE.
    pub delivered: u32,
    /// Delivered segments that carried a congestion mark.
    pub delivered_ce: u32,
    /// Last rate sample: segments delivered.
    pub rate_delivered: u32,
    /// Last rate sample: in this time.
    pub rate_interval: Micros,
    /// Segment size of the sender.
    pub mss: u32,
    /// Segments sent, of them with data.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments sent with data.
    pub data_segments_out: u32,
    /// Segments received with data.
    pub data_segments_in: u32,
    /// Segments in flight, and of those SACKed, lost and retransmitted.
    pub packets_out: u32,
    /// Retransmission timeouts. `None`: a kernel before 6.7.
    pub timeouts: Option<u32>,
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Process {
    /// Process id, in the root pid namespace.
    pub pid: u32,
    /// Name of the process (not of the thread), at most 15 bytes.
    pub comm: Name,
}

/// A pause in a connection's progress, as one of its subflows saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Last progress before it.
    pub from: Nanos,
    /// First progress after it.
    pub to: Nanos,
    /// Sent data was waiting for acknowledgement: not just an idle application.
    pub unacked: bool,
}

/// What the kernel side says of one subflow (or of one plain TCP connection).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "flags of the kernel, decoded")]
pub struct SubflowRecord {
    /// When it was read.
    pub at: Nanos,
    /// Which one.
    pub id: SubflowId,
    /// Namespace, by cookie and by the inode that `readlink /proc/PID/ns/net` shows.
    pub netns: NetnsCookie,
    /// Inode of the namespace.
    pub netns_inode: u32,
    /// Control group id (inode in the cgroup2 tree) of the connection; zero: none.
    pub cgroup: u64,
    /// The connection; `None`: plain TCP.
    pub msk: Option<MskView>,
    /// SYN sent, or SYN-ACK sent for an accepted one. `None`: opened before the agent came.
    pub created: Option<Nanos>,
    /// Reached ESTABLISHED. `None`: never did, or before the agent came.
    pub established: Option<Nanos>,
    /// First known to the agent.
    pub first_seen: Nanos,
    /// Reached CLOSE.
    pub closed: Option<Nanos>,
    /// SYN to ESTABLISHED; for an accepted subflow SYN-ACK to ACK.
    pub handshake: Option<Micros>,
    /// Payload of the connection in both directions when this subflow was established. `None`: not seen.
    pub joined_bytes: Option<Bytes>,
    /// When this subflow had carried a tenth of the connection's payload, and how much that was in all.
    pub effective: Option<(Nanos, Bytes)>,
    /// Rounds of the scheduler that looked at it.
    pub considered: u64,
    /// Rounds after which it had been given data.
    pub picked: u64,
    /// Last progress of the connection that showed on this subflow.
    pub progress: Option<Nanos>,
    /// Sent data was unacknowledged then.
    pub unacked: bool,
    /// The latest stalls, oldest first.
    pub stalls: Vec<Stall>,
    /// Segments retransmitted in recovery.
    pub retransmits_fast: u32,
    /// Segments retransmitted after a timeout.
    pub retransmits_timeout: u32,
    /// Tail loss probes that were retransmissions.
    pub retransmits_probe: u32,
    /// CPU time spent on this subflow in particular. `None`: there is no ledger, or it was full.
    pub cpu: Option<CpuTimes>,
    /// Kernel counters, final if `last`.
    pub tcp: TcpCounters,
    /// Local address, v4-mapped ones as IPv4.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// MPTCP address ids.
    pub local_id: u8,
    /// MPTCP address id of the peer.
    pub remote_id: u8,
    /// Interface that the route names; `None`: no route in the cache.
    pub interface: Option<Interface>,
    /// Owner of a plain TCP socket.
    pub owner: Option<Process>,
    /// Socket state.
    pub state: TcpState,
    /// errno reported, zero: none.
    pub error: u32,
    /// MP_TCPRST reason (RFC 8684 section 3.6), zero: none.
    pub reset_reason: u8,
    /// TCP header with its fixed options, in bytes.
    pub tcp_header: u16,
    /// Whether and how (bits of `mpw_subflow_flag` that matter above the decoder).
    pub seen_open: bool,
    /// Opened the connection (MP_CAPABLE).
    pub mp_capable: bool,
    /// Joined the connection (MP_JOIN).
    pub mp_join: bool,
    /// Asked for MPTCP in its SYN, or accepted by an MPTCP listener.
    pub asked_mptcp: bool,
    /// Accepted by this host.
    pub passive: bool,
    /// Backup by the peer's or this host's wish.
    pub backup: bool,
    /// The kernel takes it for dead and reinjects elsewhere.
    pub stale: bool,
    /// A final record.
    pub last: bool,
    /// How it ended.
    pub end: End,
    /// RTT samples.
    pub rtts: RttHistogram,
}

/// What was seen of a subflow's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "flags of the kernel, decoded")]
pub struct End {
    /// A reset was sent.
    pub reset_sent: bool,
    /// A reset was received.
    pub reset_received: bool,
    /// This host's FIN came first.
    pub fin_sent_first: bool,
    /// The peer's FIN came first.
    pub fin_received_first: bool,
    /// The connection itself was not being closed.
    pub alone: bool,
    /// The peer had withdrawn its address.
    pub removed_by_peer: bool,
    /// This host had withdrawn its address.
    pub removed_by_us: bool,
    /// The handshake never completed.
    pub never_established: bool,
}

/// What the kernel side says of one MPTCP socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// When it was read.
    pub at: Nanos,
    /// Namespace, by cookie.
    pub netns: NetnsCookie,
    /// Inode of the namespace.
    pub netns_inode: u32,
    /// Control group id; zero: none.
    pub cgroup: u64,
    /// `None`: opened before the agent came.
    pub opened: Option<Nanos>,
    /// First known to the agent.
    pub first_seen: Nanos,
    /// Reached CLOSE.
    pub closed: Option<Nanos>,
    /// The socket.
    pub msk: MskView,
    /// CPU time spent on it and no subflow in particular. `None`: there is no ledger, or it was full.
    pub cpu: Option<CpuTimes>,
    /// Who connected it, or first used it after accept. `None`: nobody yet.
    pub owner: Option<Process>,
    /// A final record.
    pub last: bool,
}

/// The name by which users know a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetnsName {
    /// The namespace. `None`, in recordings of older versions: all that had its inode, which the kernel uses again.
    #[serde(default)]
    pub netns: Option<NetnsCookie>,
    /// Inode of the namespace.
    pub inode: u32,
    /// Name under `/run/netns`, or `host` for the agent's own.
    pub name: String,
}

/// The path by which users know a control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupName {
    /// Id of the control group.
    pub id: u64,
    /// Path below the cgroup2 mount, starting with `/`.
    pub path: String,
}
