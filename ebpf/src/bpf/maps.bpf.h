/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps. Socket state is in socket-local storage, which the kernel frees with the socket. libbpf's linker merges the maps of all files. */
#ifndef MPWATCH_MAPS_BPF_H
#define MPWATCH_MAPS_BPF_H

#include "read.bpf.h"

#define MAP(name, kind, entries, key_type, value_type) \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_##kind);     \
		__uint(max_entries, entries);          \
		__type(key, key_type);                 \
		__type(value, value_type);             \
	} name SEC(".maps") __weak
#define RING(name, bytes)                           \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_RINGBUF); \
		__uint(max_entries, bytes);         \
	} name SEC(".maps") __weak
/* Storage that the kernel frees with the socket or task. */
#define STORAGE(name, kind, value_type)               \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_##kind);    \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__type(key, int);                     \
		__type(value, value_type);            \
	} name SEC(".maps") __weak

/* Result of a connection's handshake, saved because the kernel clears its copy before the tracepoint of the change to CLOSE. 0: unknown. */
struct handshake {
	/* Data sequence numbers of the first byte sent and received, for kernels that do not count bytes per connection. */
	__u64 first_sent;
	__u64 first_received;
	/* Cookie of the connection's socket. */
	__u64 cookie;
	__u32 token;
	__u32 remote_token;
	/* 1: the connection fell back to plain TCP. */
	__u32 fell_back;
	__u32 _reserved;
};

/* Bytes of payload. */
struct payload {
	__u64 sent;
	__u64 received;
};

/* State of a TCP socket: a subflow, or with settings.trace_tcp also a plain TCP connection. */
struct subflow_state {
	struct mpw_observed observed;
	/* Address of the connection's socket; never leaves the kernel. */
	__u64 msk;
	/* When the last sampled segment was received while data was in flight. */
	__u64 received_ns;
	/* The connection's snd_una at observed.progress_ns, and its snd_nxt and write_seq at received_ns. */
	__u64 progress_seq;
	__u64 next_seq;
	__u64 written_seq;
	/* The connection's snd_nxt when the peer's window was last closed. */
	__u64 limited_seq;
	/* Time of the last snapshot with a full record; it reported all stalls that had been noted. */
	__u64 stalls_read_ns;
	/* When each stall was noted: with the first segment after the one that ended it. */
	__u64 stall_noted_ns[MPW_STALLS];
	__u64 rtt_sampled_at; /* delivered_mstamp of the last RTT in the histogram */
	/* Hash of the last full record in a snapshot (snapshot.bpf.c). */
	__u64 snapshot_hash;
	/* Cheap fingerprint of the fields that change with traffic, set when a snapshot found the record unchanged; 0: the record changed. */
	__u64 fingerprint;
	/* When a snapshot last reported the unchanged record. */
	__u64 listed_ns;
	/* The next RTT sample measures data that was sent after this time (sample.bpf.h). */
	__u64 sample_due_us;
	/* Payload in KiB at the last count (work.bpf.h), total_retrans at the last retransmission, write_seq in the last scheduler round. */
	__u64 last_kib;
	__u32 last_total_retrans;
	__u32 last_write_seq;
	/* The last tick of the kernel's timer with a segment, and the number of segments in it. */
	__u32 tick;
	__u32 in_tick;
	/* Slot in the table of CPU times (cost.bpf.h). */
	__u32 cost_slot;
	/* 1: the final record of this generation has been sent, or was lost. */
	__u8 final_sent;
	/* TCP state after the last change of state that was processed. */
	__u8 last_state;
	__u8 _reserved[2];
	/* Handshake of the connection. */
	struct handshake handshake;
	/* Payload in the last full record of a snapshot. */
	struct payload reported;
	/* Counters when the socket reached CLOSE: the kernel zeroes the live ones when it disconnects a socket to reuse it. */
	struct mpw_tcp final;
	__u32 rtt_histogram[MPW_RTT_BUCKETS];
};

/* State of an MPTCP socket. */
struct connection_state {
	__u64 cookie;
	__u64 opened_ns;
	__u64 first_seen_ns;
	__u64 closed_ns;
	/* As in struct subflow_state. */
	__u64 snapshot_hash;
	__u64 fingerprint;
	__u64 listed_ns;
	struct handshake handshake;
	/* Payload in the last full record of a snapshot. */
	struct payload reported;
	struct mpw_owner owner;
	/* 1: the application has closed its side. The DATA_FIN takes up one sequence number. */
	__u8 fin_queued;
	/* TCP state after the last change of state that was processed. */
	__u8 last_state;
	/* 1: the final record was lost, and its payload is counted as lost. */
	__u8 lost;
	__u8 _reserved;
	/* Slot in the table of CPU times (cost.bpf.h). */
	__u32 cost_slot;
};

STORAGE(subflows, SK_STORAGE, struct subflow_state);

STORAGE(connections, SK_STORAGE, struct connection_state);

/* Final records of subflows and connections, and paths of control groups. User space may change the size. */
RING(events, MPW_EVENTS_BYTES);

/* Records that did not fit into `events`. User space reads this ring at every tick. */
RING(overflow, MPW_OVERFLOW_BYTES);

/* One value with all counters, so that a program that counts two things needs one lookup. */
MAP(counters, PERCPU_ARRAY, 1, __u32, struct mpw_counters);

/* Sampling rate of received segments. Set before the programs are attached. */
MAP(sampling_rate, ARRAY, 1, __u32, struct mpw_sampling_rate);

static __always_inline const struct mpw_sampling_rate *current_sampling_rate(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&sampling_rate, &zero);
}

/* Copy of each CPU's accounts from the last run of `ledger_read` or `ledger_close`. */
MAP(cpu_accounts, PERCPU_ARRAY, 1, __u32, struct mpw_cpu_accounts);

/* Buffer in which iterators build a record, because a record is too large for the stack. Snapshots are read one at a time. */
MAP(scratch, PERCPU_ARRAY, 1, __u32, struct mpw_subflow);

/* Adds to two counters; to add to one, pass it twice with a `second_amount` of 0. */
static __always_inline void count_both(__u32 first, __u64 amount, __u32 second, __u64 second_amount)
{
	__u32 zero = 0;
	struct mpw_counters *all = bpf_map_lookup_elem(&counters, &zero);

	if (!all || first >= MPW_COUNTERS || second >= MPW_COUNTERS)
		return;
	all->values[first] += amount;
	all->values[second] += second_amount;
}

static __always_inline void count(__u32 which, __u64 amount)
{
	count_both(which, amount, which, 0);
}

/* Storage of a socket, created if there is none. NULL: the kernel has no memory. */
static __always_inline void *create_storage(void *map, void *sk)
{
	void *state = bpf_sk_storage_get(map, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!state)
		count(MPW_COUNT_STORAGE_FAILED, 1);
	return state;
}

/* Traces an MPTCP socket from now on, if it was not traced before. */
static __always_inline struct connection_state *adopt_connection(struct sock *sk)
{
	struct connection_state *connection = create_storage(&connections, sk);

	if (connection && !connection->first_seen_ns) {
		connection->first_seen_ns = bpf_ktime_get_boot_ns();
		connection->cookie = bpf_get_socket_cookie(sk);
	}
	return connection;
}

/* Stores the name of the process, not of the thread. The process id is stored last, because it marks the owner as known. */
static __always_inline void set_owner(struct mpw_owner *owner, struct task_struct *task)
{
	BPF_CORE_READ_INTO(&owner->comm, task, group_leader, comm);
	owner->pid = BPF_CORE_READ(task, tgid);
}

static __always_inline void set_current_owner(struct mpw_owner *owner)
{
	set_owner(owner, (struct task_struct *)bpf_get_current_task());
}

/* Reserves memory for one record in `events`, else in `overflow`. NULL: both are full, and the record counts as lost. */
static __always_inline void *reserve(__u64 size)
{
	void *record;

	count(MPW_COUNT_RING_RECORDS, 1);
	record = bpf_ringbuf_reserve(&events, size, 0);
	if (record)
		return record;
	count(MPW_COUNT_RING_FULL, 1);
	record = bpf_ringbuf_reserve(&overflow, size, 0);
	if (!record)
		count(MPW_COUNT_RECORDS_LOST, 1);
	return record;
}

#endif
