/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What crosses from the kernel side to user space: the records that the programs write to the ring buffer and to the
 * iterators' output. Plain C without kernel types, read by clang for BPF and by bindgen for Rust, so that no record is
 * ever written down twice.
 *
 * Rules: fixed-width types, largest first, no implicit padding, no bitfields, no kernel pointer. Times are nanoseconds of
 * CLOCK_BOOTTIME, 0 = never seen. A record is zeroed before it is filled.
 */
#ifndef MPWATCH_ABI_H
#define MPWATCH_ABI_H

/* Log-linear RTT histogram: 8 buckets an octave from 2^4 to 2^24 us; see mpw_rtt_bucket(). */
#define MPW_RTT_BUCKETS 160
/* Stalls of a connection that one subflow remembers; older ones are overwritten in turn. */
#define MPW_STALLS 4
/* Address ids in one REMOVE_ADDR (the kernel's MPTCP_RM_IDS_MAX). */
#define MPW_RM_IDS   8
#define MPW_NAME_LEN 16
/* Points in one batch of samples. */
#define MPW_POINTS 32

enum mpw_record_kind {
	MPW_RECORD_SUBFLOW = 1,
	MPW_RECORD_CONNECTION = 2,
	/* In a snapshot, instead of a record that would be the same as the last one but for its time. */
	MPW_RECORD_UNCHANGED_SUBFLOW = 3,
	MPW_RECORD_UNCHANGED_CONNECTION = 4,
	MPW_RECORD_SAMPLES = 5,
};

/* Flags of a subflow. */
enum mpw_subflow_flag {
	/* The socket was seen from its SYN (or from its accept) on; otherwise it was adopted. */
	MPW_SF_SEEN_OPEN = 1u << 0,
	/* Part of an MPTCP connection; otherwise plain TCP. */
	MPW_SF_MPTCP = 1u << 1,
	/* Opened the connection (MP_CAPABLE), resp. joined it (MP_JOIN). */
	MPW_SF_MP_CAPABLE = 1u << 2,
	MPW_SF_MP_JOIN = 1u << 3,
	/* The peer, resp. this host, asked that this path be used as a backup only. */
	MPW_SF_BACKUP_BY_PEER = 1u << 4,
	MPW_SF_BACKUP_BY_US = 1u << 5,
	/* The kernel gave up waiting for acknowledgements here and reinjects elsewhere. */
	MPW_SF_STALE = 1u << 6,
	/* The record holds final counters: they were read when the socket reached CLOSE. */
	MPW_SF_FINAL = 1u << 7,
	/* Passive open: this host accepted the subflow. */
	MPW_SF_PASSIVE = 1u << 8,
	/* How it ended; several may be set. The peer's MP_FASTCLOSE on another subflow counts as a reset received. */
	MPW_SF_RST_SENT = 1u << 9,
	MPW_SF_RST_RECEIVED = 1u << 10,
	MPW_SF_FIN_SENT_FIRST = 1u << 11,
	MPW_SF_FIN_RECEIVED_FIRST = 1u << 12,
	/* The connection was not being closed when the subflow began to end. */
	MPW_SF_ENDED_ALONE = 1u << 13,
	/* A REMOVE_ADDR for this subflow's address had been received from the peer, resp. sent to it. */
	MPW_SF_RM_ADDR_RECEIVED = 1u << 14,
	MPW_SF_RM_ADDR_SENT = 1u << 15,
	/* The kernel has counters of retransmission timeouts (6.7 and later). */
	MPW_SF_HAS_TOTAL_RTO = 1u << 16,
	/* Never reached ESTABLISHED. */
	MPW_SF_NEVER_ESTABLISHED = 1u << 17,
	/* The MPTCP handshake was asked for (request_mptcp) when the SYN was sent. */
	MPW_SF_ASKED_MPTCP = 1u << 18,
	/* Sent data of the connection was unacknowledged at progress_ns. */
	MPW_SF_UNACKED = 1u << 19,
	/* cpu_ns is known. */
	MPW_SF_HAS_CPU = 1u << 20,
};

/* Flags of a connection (MPTCP socket). */
enum mpw_msk_flag {
	MPW_MSK_SERVER_SIDE = 1u << 0,
	/* Fell back to plain TCP on its one subflow. */
	MPW_MSK_FALLBACK = 1u << 1,
	/* The kernel counts bytes of connections (6.5 and later), also those sent again; otherwise sequence numbers tell. */
	MPW_MSK_HAS_RETRANS = 1u << 2,
	/* The record was made when the socket reached CLOSE. */
	MPW_MSK_FINAL = 1u << 3,
	/* No count of bytes: without counters and fallen back, so that its one subflow has carried everything. */
	MPW_MSK_BYTES_UNKNOWN = 1u << 4,
	/* cpu_ns of the connection's record is known. */
	MPW_MSK_HAS_CPU = 1u << 5,
};

/* Counters that the kernel side keeps for the whole host, one per CPU, never reset while loaded. */
enum mpw_counter {
	/* Records that programs tried to write to the ring buffer. */
	MPW_COUNT_RING_RECORDS,
	/* Of those, did not fit and went to the overflow queue, where the agent picks them up. */
	MPW_COUNT_RING_FULL,
	/* Of those, found the overflow queue full as well: the record is lost, its bytes are in the next two. */
	MPW_COUNT_RECORDS_LOST,
	MPW_COUNT_LOST_BYTES_SENT,
	MPW_COUNT_LOST_BYTES_RECEIVED,
	/* Sockets for which the kernel could not give storage: they are not traced. */
	MPW_COUNT_STORAGE_FAILED,
	/* mptcp_sendmsg_frag: times that data was put onto a subflow, reinjections included. */
	MPW_COUNT_MAPPINGS_SENT,
	/* get_mapping_status: times that a receiver looked at a DSS option. */
	MPW_COUNT_MAPPINGS_RECEIVED,
	/* ack_update_msk: DATA_ACKs received, and bytes that they newly acknowledged. */
	MPW_COUNT_DATA_ACKS,
	MPW_COUNT_DATA_ACKED_BYTES,
	/* subflow_check_data_avail by its verdict (enum mapping_status of net/mptcp/subflow.c). */
	MPW_COUNT_MAPPING_OK,
	MPW_COUNT_MAPPING_INVALID,
	MPW_COUNT_MAPPING_EMPTY,
	MPW_COUNT_MAPPING_DATA_FIN,
	MPW_COUNT_MAPPING_DUMMY,
	MPW_COUNT_MAPPING_BAD_CSUM,
	MPW_COUNT_MAPPING_NODSS,
	/* SYN-ACKs sent again (tcp_retransmit_synack): handshakes whose answer was lost. */
	MPW_COUNT_SYNACK_RETRANSMITS,
	/* Sockets for whose CPU time the ledger had no room: it is in net_shared. */
	MPW_COUNT_COSTS_FULL,
	/* Points of samples that found their ring full. */
	MPW_COUNT_POINTS_LOST,
	MPW_COUNTERS,
};

struct mpw_counters {
	__u64 values[MPW_COUNTERS];
};

/* What user space sets before the programs are loaded; constants to the verifier. */
struct mpw_settings {
	/* Process id of mpwatch. */
	__u32 self;
	/* Sockets whose CPU time the ledger has room for, and one. */
	__u32 cost_slots;
	/* 1: also trace plain TCP connections. */
	__u8 trace_tcp;
	/* 1: keep the CPU ledger. */
	__u8 ledger;
	/* 1: take samples, from which bottlenecks are found. */
	__u8 samples;
	/* 1: also of connections with one subflow, to compare with those of other connections. */
	__u8 lone_samples;
	/* 1: the kernel has bpf_rdonly_cast(), so fields are read in place (read.bpf.h). */
	__u8 has_cast;
	__u8 _reserved[3];
};

/* Where the time of a CPU goes; eight, so that an index can be masked. */
enum mpw_account {
	/* A traced socket's: see mpw_cpu_class. */
	MPW_ACCOUNT_FLOW,
	/* The processes that own traced sockets, outside of the calls that they make on them. */
	MPW_ACCOUNT_APP,
	/* Everything else that runs as a task, and TCP connections that are not traced. */
	MPW_ACCOUNT_OTHER,
	/* Network softirqs before a packet has found its socket. */
	MPW_ACCOUNT_NET_SHARED,
	/* Device interrupts and other softirqs. */
	MPW_ACCOUNT_IRQ,
	/* mpwatch itself. */
	MPW_ACCOUNT_SELF,
	MPW_ACCOUNT_IDLE,
	/*
	 * Calls that have not ended yet and may still turn out to be a flow's. Two's complement: the time may be taken out on another
	 * CPU than the one on which it was put in.
	 */
	MPW_ACCOUNT_PENDING,
	MPW_ACCOUNTS,
};

/* What a CPU does for a socket. */
enum mpw_cpu_class {
	/* The application's calls. */
	MPW_CPU_SYSCALL,
	/* Receiving, with whatever the received segment causes to be sent. */
	MPW_CPU_RX_SOFTIRQ,
	/* Sending that had been put off: by a queue, by pacing, by the small-queue limit. */
	MPW_CPU_TX,
	/* Retransmission, delayed acknowledgement. */
	MPW_CPU_TIMER,
	/* The kernel's threads: mptcp_worker, threaded NAPI. */
	MPW_CPU_WORKER,
	MPW_CPU_CLASSES,
};

/* The accounts of one CPU; times of CLOCK_MONOTONIC. They sum to at_ns - since_ns. since_ns 0: the CPU was never looked at. */
struct mpw_cpu_accounts {
	__u64 since_ns;
	__u64 at_ns;
	__u64 ns[MPW_ACCOUNTS];
};

struct mpw_address {
	/* IPv6, or v4-mapped for IPv4. All zero: not set. */
	__u8 ip[16];
	/* Host byte order. */
	__u16 port;
	/* MPTCP address id; 0 is the id of the first subflow's address. */
	__u8 id;
	__u8 _reserved[5];
};

/* The MPTCP socket behind a subflow, as the kernel holds it at that moment. */
struct mpw_msk {
	/* Socket cookie, 0 until the kernel has given one. */
	__u64 cookie;
	__u64 bytes_sent;
	__u64 bytes_received;
	__u64 bytes_acked;
	/* MPTCP-level retransmissions by the kernel's timer; not the reinjections at a subflow's end. */
	__u64 bytes_retrans;
	/* Last address that the peer announced (ADD_ADDR). */
	struct mpw_address announced;
	__u32 token;
	__u32 remote_token;
	/* enum mpw_msk_flag */
	__u32 flags;
	/* TCP_ESTABLISHED (1) ... */
	__u8 state;
	__u8 add_addr_signaled;
	__u8 add_addr_accepted;
	/* Ids in the last REMOVE_ADDR received. */
	__u8 removed_count;
	__u8 removed_ids[MPW_RM_IDS];
};

/* struct tcp_sock, the part that mpwatch shows. */
struct mpw_tcp {
	__u64 bytes_sent;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 bytes_retrans;
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 rtt_min_us;
	__u32 rtt_us;
	__u32 total_retrans;
	__u32 lost;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 retrans_out;
	__u32 packets_out;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 mss;
	__u32 segs_out;
	__u32 segs_in;
	__u32 data_segs_out;
	__u32 data_segs_in;
	__u32 total_rto;
	/* enum tcp_ca_state */
	__u8 ca_state;
	__u8 backoff;
	__u8 _reserved[6];
};

/*
 * A time in which no data of the connection was acknowledged, as one of its subflows saw it: between
 * the last segment on that subflow that still showed progress and the first one that showed progress again.
 */
struct mpw_stall {
	__u64 from_ns;
	__u64 to_ns;
	/* 1: sent data was waiting for acknowledgement when it began, so this was not just an idle application. */
	__u32 unacked;
	__u32 _reserved;
};

struct mpw_owner {
	__u32 pid;
	__u32 _reserved;
	__u8 comm[MPW_NAME_LEN];
};

struct mpw_unchanged {
	__u32 kind;
	/* Of a subflow. */
	__u32 generation;
	__u64 cookie;
};

struct mpw_subflow {
	/* enum mpw_record_kind; first in every record */
	__u32 kind;
	/* enum mpw_subflow_flag */
	__u32 flags;
	__u64 at_ns;
	__u64 cookie;
	__u64 netns_cookie;
	__u64 cgroup_id;
	__u64 created_ns;
	__u64 established_ns;
	__u64 first_seen_ns;
	__u64 closed_ns;
	/* Payload of the connection, both directions, when this subflow was established. */
	__u64 joined_bytes;
	/* When, and after how many bytes of the connection, this subflow had carried a tenth of them. */
	__u64 effective_ns;
	__u64 effective_bytes;
	/* Rounds of the scheduler that looked at this subflow, and that gave it data. */
	__u64 sched_considered;
	__u64 sched_picked;
	/* Last segment that showed progress of the connection. */
	__u64 progress_ns;
	/* By enum mpw_cpu_class. What the application's calls and the workers cost is in the connection's record. */
	__u64 cpu_ns[MPW_CPU_CLASSES];
	struct mpw_msk msk;
	struct mpw_tcp tcp;
	struct mpw_address local;
	struct mpw_address remote;
	struct mpw_stall stalls[MPW_STALLS];
	/* Of plain TCP; of MPTCP it is in the connection's record. pid 0: not known. */
	struct mpw_owner owner;
	__u32 generation;
	__u32 netns_inode;
	__u32 handshake_us;
	/* Stalls noticed so far; stall n is in stalls[n % MPW_STALLS]. */
	__u32 stall_count;
	/* Segments retransmitted by what made TCP do it; what is missing to total_retrans is not told. */
	__u32 retrans_fast;
	__u32 retrans_timeout;
	__u32 retrans_probe;
	__u32 ifindex;
	/* errno that the socket reported, 0 = none */
	__u32 error;
	/* Bytes of the TCP header with its fixed options (time stamps), without the MPTCP options. */
	__u16 tcp_header_bytes;
	__u8 state;
	/* MP_TCPRST reason (RFC 8684 3.6), 0 = none */
	__u8 reset_reason;
	__u8 ifname[MPW_NAME_LEN];
	__u32 rtt_histogram[MPW_RTT_BUCKETS];
};

struct mpw_connection {
	__u32 kind;
	__u32 netns_inode;
	__u64 at_ns;
	__u64 netns_cookie;
	__u64 cgroup_id;
	__u64 opened_ns;
	__u64 first_seen_ns;
	__u64 closed_ns;
	/* By enum mpw_cpu_class: what was done for the connection and no subflow in particular. */
	__u64 cpu_ns[MPW_CPU_CLASSES];
	struct mpw_msk msk;
	struct mpw_owner owner;
};

/* How a path looked when an acknowledgement had come. */
struct mpw_point {
	/* tcp_sock.delivered_mstamp: microseconds of CLOCK_MONOTONIC */
	__u64 at_us;
	__u32 rtt_us;
	/* Running totals of segments; they wrap. */
	__u32 delivered;
	__u32 lost;
	/* 1: in CWR, Recovery or Loss, that is, the congestion window is being cut. */
	__u32 cut;
};

struct mpw_samples {
	__u32 kind;
	__u32 generation;
	__u64 cookie;
	/* CLOCK_BOOTTIME minus CLOCK_MONOTONIC when the batch was sent. */
	__u64 boot_offset_ns;
	/* Points that are set; the record ends behind the last of them. */
	__u32 count;
	__u32 _reserved;
	struct mpw_point points[MPW_POINTS];
};

#endif
