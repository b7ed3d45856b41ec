/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Records and limits that BPF programs and user space share, in plain C that the build script translates to Rust. Fixed-width types; no
 * implicit padding, bitfields or kernel pointers. Times: nanoseconds of CLOCK_BOOTTIME; 0: never. Members that are not set are 0. */
#ifndef MPWATCH_ABI_H
#define MPWATCH_ABI_H

#include "mpwatch_settings.h"

enum mpw_limit {
	MPW_RTT_BUCKETS = 160, /* log-linear: 8 per octave, from 2^4 to 2^24 us */
	MPW_RTT_SUB_BUCKET_BITS = 3,
	MPW_RTT_LOWEST_OCTAVE = 4,
	MPW_RTT_MAX_US = (1 << 24) - 1,
	MPW_WORK_PER_PACKET = 32,     /* work units of a packet; a KiB of payload is 1 unit */
	MPW_STALLS = 4,		      /* kept per subflow: the longest since the last snapshot */
	MPW_STALL_UNUSED = 2,	      /* mpw_stall.unacked: nothing in flight */
	MPW_MIN_STALL_NS = 100000000, /* half of the shortest retransmission timeout */
	MPW_MIN_WINDOW = 1280, /* smaller windows admit no segment, even at IPv6's minimum MTU */
	MPW_RM_IDS = 8,	       /* in one REMOVE_ADDR: the kernel's MPTCP_RM_IDS_MAX */
	MPW_NAME_LEN = 16,
	MPW_CGROUP_LEVELS = 16,	    /* of a control group's path */
	MPW_CGROUP_NAME = 256,	    /* bytes of one level: NAME_MAX and a NUL */
	MPW_BATCH_SAMPLES = 32,	    /* RTT samples in one batch */
	MPW_EVENTS_BYTES = 8 << 20, /* default sizes of the ring buffers */
	MPW_OVERFLOW_BYTES = 4 << 20,
	MPW_SAMPLES_BYTES = 4 << 20,
};

enum mpw_record_kind {
	MPW_RECORD_SUBFLOW = 1,
	MPW_RECORD_CONNECTION = 2,
	/* Replaces a full record in a snapshot if only the time has changed. */
	MPW_RECORD_UNCHANGED_SUBFLOW = 3,
	MPW_RECORD_UNCHANGED_CONNECTION = 4,
	MPW_RECORD_SAMPLE_BATCH = 5,
	MPW_RECORD_CGROUP = 6,
};

/* Flags of a subflow. */
enum mpw_subflow_flag {
	/* Its opening was traced. Otherwise it was open before the programs were attached. */
	MPW_SF_SEEN_OPEN = 1u << 0,
	/* Part of an MPTCP connection; otherwise plain TCP. */
	MPW_SF_MPTCP = 1u << 1,
	/* Opened the connection (MP_CAPABLE), or joined it (MP_JOIN). */
	MPW_SF_MP_CAPABLE = 1u << 2,
	MPW_SF_MP_JOIN = 1u << 3,
	/* The peer, or this host, requested to use this subflow as a backup only. */
	MPW_SF_BACKUP_BY_PEER = 1u << 4,
	MPW_SF_BACKUP_BY_US = 1u << 5,
	/* The kernel no longer waits for acknowledgements on it and reinjects its data on others. */
	MPW_SF_STALE = 1u << 6,
	MPW_SF_FINAL = 1u << 7,	  /* final counters, read when the socket reached CLOSE */
	MPW_SF_PASSIVE = 1u << 8, /* this host accepted the subflow */
	/* How the subflow ended; several may be set. The peer's MP_FASTCLOSE on another subflow counts as a reset received. */
	MPW_SF_RST_SENT = 1u << 9,
	MPW_SF_RST_RECEIVED = 1u << 10,
	MPW_SF_FIN_SENT_FIRST = 1u << 11,
	MPW_SF_FIN_RECEIVED_FIRST = 1u << 12,
	/* Its connection was still established when the subflow began to close. */
	MPW_SF_ENDED_ALONE = 1u << 13,
	/* The peer, or this host, had sent a REMOVE_ADDR for the subflow's address. */
	MPW_SF_RM_ADDR_RECEIVED = 1u << 14,
	MPW_SF_RM_ADDR_SENT = 1u << 15,
	/* The kernel counts retransmission timeouts (6.7 and later). */
	MPW_SF_HAS_TOTAL_RTO = 1u << 16,
	/* Never reached ESTABLISHED. */
	MPW_SF_NEVER_ESTABLISHED = 1u << 17,
	/* The SYN asked for MPTCP (request_mptcp). Of subflows whose opening was not traced, only those that this host opened have this flag. */
	MPW_SF_ASKED_MPTCP = 1u << 18,
	/* The connection had unacknowledged data at progress_ns. */
	MPW_SF_UNACKED = 1u << 19,
	/* cpu_ns is known. */
	MPW_SF_HAS_CPU = 1u << 20,
	/* The SYN asked to join (request_join). MPW_SF_MP_JOIN says that the peer accepted. */
	MPW_SF_ASKED_JOIN = 1u << 21,
	/* This host's FIN is queued or sent; it takes up one sequence number. */
	MPW_SF_FIN_QUEUED = 1u << 22,
	/* The peer's FIN has arrived. The kernel counts it as a received byte. */
	MPW_SF_FIN_RECEIVED = 1u << 23,
	/* The SYN that was answered had no MP_CAPABLE, because the kernel omits the option after unanswered SYNs that had it. */
	MPW_SF_OPTION_OMITTED = 1u << 26,
	/* The peer has acknowledged the join, so that the kernel sends data on the subflow. */
	MPW_SF_FULLY_ESTABLISHED = 1u << 28,
	/* When it closed, both ends of its connection had acknowledged the DATA_FIN of the other end. */
	MPW_SF_CLOSED_IN_ORDER = 1u << 27,
	/* An MPW_SF_RM_ADDR_* flag, shifted left by this, marks a REMOVE_ADDR that is older than the subflow. Only BPF programs use it. */
	MPW_SF_OLD_RM_ADDR_SHIFT = 10,
};

/* Flags of a connection (MPTCP socket). */
enum mpw_msk_flag {
	MPW_MSK_SERVER_SIDE = 1u << 0,
	/* Fell back to plain TCP on its only subflow. */
	MPW_MSK_FALLBACK = 1u << 1,
	/* The kernel counts bytes per connection, retransmitted bytes too (6.5 and later). Otherwise byte counts follow from sequence numbers. */
	MPW_MSK_HAS_RETRANS = 1u << 2,
	/* The record was made when the socket reached CLOSE. */
	MPW_MSK_FINAL = 1u << 3,
	/* No byte counts, for example after a fallback on a kernel without counters per connection. Then the only subflow has all bytes. */
	MPW_MSK_BYTES_UNKNOWN = 1u << 4,
	/* cpu_ns of the connection's record is known. */
	MPW_MSK_HAS_CPU = 1u << 5,
	/* No byte counts here: only the connection's own records have them, or they were counted as lost. */
	MPW_MSK_BYTES_APART = 1u << 6,
};

/* Counters of the whole host, per CPU, never reset while the programs are loaded. */
enum mpw_counter {
	/* Records that programs tried to write to the ring buffer. */
	MPW_COUNT_RING_RECORDS,
	/* Of those, records that did not fit, so the programs tried the overflow ring. */
	MPW_COUNT_RING_FULL,
	/* Of those, records that did not fit there either. They are lost; the next two count the payload that no record reports. */
	MPW_COUNT_RECORDS_LOST,
	MPW_COUNT_LOST_BYTES_SENT,
	MPW_COUNT_LOST_BYTES_RECEIVED,
	/* The kernel could not allocate storage for a socket. The socket's next event tries again. */
	MPW_COUNT_STORAGE_FAILED,
	/* tcp_retransmit_synack: SYN-ACKs retransmitted. */
	MPW_COUNT_SYNACK_RETRANSMITS,
	/* Sockets for which the CPU ledger had no free slot. Their CPU time stays in accounts such as MPW_ACCOUNT_NET_SHARED. */
	MPW_COUNT_COSTS_FULL,
	/* RTT samples that did not fit into their ring. */
	MPW_COUNT_SAMPLES_LOST,
	/* Runs of the program on the packet path: one per segment, also for TCP connections that are not traced. */
	MPW_COUNT_SEGMENTS,
	/* If the ledger is sampled: work units of all subflows (`work` in struct mpw_observed), and the part in sampling windows. */
	MPW_COUNT_WORK,
	MPW_COUNT_WINDOW_WORK,
	MPW_COUNTERS,
};

struct mpw_counters {
	__u64 values[MPW_COUNTERS];
};

/* Accounts of a CPU's time. Their number is a power of two, so that an index can be masked. */
enum mpw_account {
	/* Work for a traced socket: see mpw_cpu_class. */
	MPW_ACCOUNT_FLOW,
	/* Processes that own traced sockets, outside of their calls on these sockets. */
	MPW_ACCOUNT_APP,
	/* All other tasks, and TCP connections that are not traced. */
	MPW_ACCOUNT_OTHER,
	/* Network softirqs before a packet has reached its socket. */
	MPW_ACCOUNT_NET_SHARED,
	/* Device interrupts and other softirqs. */
	MPW_ACCOUNT_IRQ,
	/* mpwatch itself. */
	MPW_ACCOUNT_SELF,
	MPW_ACCOUNT_IDLE,
	/* Unfinished system calls, which may be charged to a flow later. May be negative (two's complement) if a call changed CPUs. */
	MPW_ACCOUNT_PENDING,
	MPW_ACCOUNTS,
};

/* Kinds of work for a socket. */
enum mpw_cpu_class {
	/* System calls of the application. */
	MPW_CPU_SYSCALL,
	/* Receiving, including everything sent in response to the segment. */
	MPW_CPU_RX_SOFTIRQ,
	/* Sending that was delayed by a queue, pacing or the small-queue limit. */
	MPW_CPU_TX,
	/* Retransmissions and delayed acknowledgements. */
	MPW_CPU_TIMER,
	/* Kernel threads: mptcp_worker, threaded NAPI. */
	MPW_CPU_WORKER,
	MPW_CPU_CLASSES,
};

/*
 * The accounts of one CPU, in CLOCK_MONOTONIC. They sum to at_ns - since_ns; for a sampled ledger this is the length of all sampling windows.
 * since_ns 0: this CPU has not been counted yet.
 */
struct mpw_cpu_accounts {
	__u64 since_ns;
	__u64 at_ns;
	__u64 ns[MPW_ACCOUNTS];
	/* Estimated time of the programs of a sampled ledger; MPW_ACCOUNT_SELF includes it. */
	__u64 programs_ns;
};

struct mpw_address {
	/* IPv6, or v4-mapped for IPv4. All zero: not set. */
	__u8 ip[16];
	__u16 port; /* host byte order */
	/* MPTCP address id; the first subflow's address has 0. */
	__u8 id;
	__u8 _reserved[5];
};

/* The MPTCP socket of a subflow or connection, when the record was made. */
struct mpw_msk {
	__u64 cookie; /* 0: the kernel has not assigned one yet */
	__u64 bytes_sent;
	__u64 bytes_received;
	__u64 bytes_acked;
	/* Retransmitted by the MPTCP timer. Excludes data reinjected at the end of a subflow. */
	__u64 bytes_retrans;
	/* Payload that the scheduler has not assigned to a subflow yet, and assigned payload without a DATA_ACK. */
	__u64 unsent;
	__u64 unacked;
	/* The peer's receive window, from the first byte without a DATA_ACK. Data in flight does not reduce it. */
	__u64 window;
	/* Last address that the peer announced (ADD_ADDR). */
	struct mpw_address announced;
	__u32 token;
	__u32 remote_token;
	__u32 flags; /* enum mpw_msk_flag */
	__u8 state;  /* TCP_ESTABLISHED (1) ... */
	__u8 add_addr_signaled;
	__u8 add_addr_accepted;
	/* Ids in the last REMOVE_ADDR received. */
	__u8 removed_count;
	__u8 removed_ids[MPW_RM_IDS];
};

/* Fields of struct tcp_sock. */
struct mpw_tcp {
	__u64 bytes_sent;
	__u64 bytes_acked;
	__u64 bytes_received;
	/* Includes retransmissions that a queue of this host refused. */
	__u64 bytes_retrans;
	/* Payload that was sent at least once: acknowledged or in flight. If the opening of plain TCP was not traced, the SYN may count as a byte. */
	__u64 payload_sent;
	__u64 chrono_ns[3]; /* of enum tcp_chrono from 1, up to observed.busy_ns */
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 rtt_min_us;
	__u32 rtt_us;
	__u32 total_retrans;
	__u32 lost;
	__u32 snd_cwnd;
	__u32 delivered;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 mss;
	__u32 segs_out;
	__u32 segs_in;
	__u32 data_segs_out;
	__u32 data_segs_in;
	__u32 total_rto;
};

/* An interval in which this subflow observed no progress of its connection. Ends with progress or, if MPW_STALL_UNUSED, with new data. */
struct mpw_stall {
	__u64 from_ns;
	__u64 to_ns;
	/* 0: no data was unacknowledged when the stall began, so the application may have been idle; 1: some was; 2: MPW_STALL_UNUSED. */
	__u32 unacked;
	__u32 _reserved;
};

struct mpw_owner {
	/* 0: unknown. */
	__u32 pid;
	__u32 _reserved;
	__u8 comm[MPW_NAME_LEN];
};

struct mpw_unchanged {
	__u32 kind;
	__u32 generation; /* of a subflow */
	__u64 cookie;
};

/* State of a subflow that the kernel does not keep, or clears at close. Kept in socket storage, and copied into each record. */
struct mpw_observed {
	__u64 cookie;
	__u64 created_ns; /* SYN sent, or SYN-ACK sent */
	__u64 established_ns;
	__u64 first_seen_ns;
	__u64 closed_ns;
	/* Payload of the connection, both directions, when this subflow was established. */
	__u64 joined_bytes;
	/* When this subflow had carried a tenth of its connection's payload, and the connection's payload at that time. */
	__u64 effective_ns;
	__u64 effective_bytes;
	/* Scheduler rounds that considered this subflow, and rounds after which it had new data to send. */
	__u64 sched_considered;
	__u64 sched_picked;
	/* Time of the last progress of the connection, or since when a stall could begin (stall.bpf.h). */
	__u64 progress_ns;
	/* Time of the last ACK, and time since which data is queued or in flight (0: no data is). Precision: one timer tick. */
	__u64 ack_ns;
	__u64 busy_ns;
	/* Retransmitted payload, excluding segments that a queue of this host refused. 0: none, or tcp_retransmit_skb is not traced. */
	__u64 bytes_resent;
	/* Payload in packets that queues of this host dropped. The kernel informs TCP only if the queue refused the whole packet. */
	__u64 bytes_dropped;
	/* Payload in the SYN (TCP Fast Open), which the kernel's counters of the connection exclude. */
	__u64 syn_bytes;
	/* Work units since tracing began (work.bpf.h), and the part in sampling windows. */
	__u64 work;
	__u64 window_work;
	struct mpw_address local;
	struct mpw_address remote;
	/* Owner of a plain TCP socket. The owner of an MPTCP connection is in the connection's record. */
	struct mpw_owner owner;
	struct mpw_stall stalls[MPW_STALLS]; /* in any order */
	__u32 flags;			     /* enum mpw_subflow_flag */
	__u32 generation;   /* number of times that this socket has connected again */
	__u32 handshake_us; /* 0: unknown */
	/* Segments retransmitted, by cause. Segments without a known cause are only in total_retrans. */
	__u32 retrans_fast;
	__u32 retrans_timeout;
	__u32 retrans_probe;
	/* Segments in flight, and the peer's window in bytes. */
	__u32 packets_out;
	__u32 snd_wnd;
	__u32 ifindex;
	/* errno that the socket reported; 0: none. */
	__u32 error;
	__u8 reset_reason; /* of MP_TCPRST (RFC 8684 3.6); 0: none */
	/* Retransmission timeouts in a row, and probes (keepalive, closed window) without an answer. */
	__u8 backoff;
	__u8 probes;
	__u8 chrono_type; /* enum tcp_chrono since busy_ns */
	__u8 _reserved[4];
	__u8 ifname[MPW_NAME_LEN];
	/* Interface through which the last segments arrived. All zero: unknown. */
	__u8 incoming_ifname[MPW_NAME_LEN];
};

struct mpw_subflow {
	__u32 kind; /* enum mpw_record_kind; first in every record */
	__u32 netns_inode;
	__u64 at_ns;
	__u64 netns_cookie;
	__u64 cgroup_id;
	/* By enum mpw_cpu_class. Calls that send or receive on an MPTCP socket are in the connection's record. */
	__u64 cpu_ns[MPW_CPU_CLASSES];
	struct mpw_observed observed;
	struct mpw_tcp tcp;
	/* TCP header with its fixed options (time stamps), without the MPTCP options. */
	__u16 tcp_header_bytes;
	__u8 state;
	__u8 _reserved[5];
	struct mpw_msk msk;
	/* Name of the congestion control. All zero: unknown. */
	__u8 congestion[MPW_NAME_LEN];
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
	/* By enum mpw_cpu_class: work for the connection that is not for one of its subflows. */
	__u64 cpu_ns[MPW_CPU_CLASSES];
	struct mpw_msk msk;
	struct mpw_owner owner;
	/* Addresses of the initial subflow. Port 0: the kernel has not copied them yet. */
	struct mpw_address local;
	struct mpw_address remote;
};

/* State of a subflow when an acknowledgement arrived. */
struct mpw_delay_sample {
	/* tcp_sock.delivered_mstamp: microseconds of CLOCK_MONOTONIC */
	__u64 at_us;
	__u32 rtt_us;
	/* Running totals of segments; they wrap. */
	__u32 delivered;
	__u32 lost;
	/* 1: the congestion window is being reduced (CWR, Recovery or Loss). */
	__u32 cut;
};

struct mpw_sample_batch {
	__u32 kind;
	__u32 generation;
	__u64 cookie;
	/* CLOCK_BOOTTIME minus CLOCK_MONOTONIC when the batch was sent. */
	__u64 boot_offset_ns;
	/* Samples in this batch; the record ends after the last one. */
	__u32 count;
	__u32 _reserved;
	struct mpw_delay_sample samples[MPW_BATCH_SAMPLES];
};

/* Path of a control group; is_cut: only its MPW_CGROUP_LEVELS innermost levels. Bytes after a NUL are arbitrary. */
struct mpw_cgroup {
	__u32 kind;
	/* Names in this record, innermost first. */
	__u16 levels;
	__u16 is_cut;
	__u64 id;
	__u8 names[MPW_CGROUP_LEVELS][MPW_CGROUP_NAME];
};

#endif
