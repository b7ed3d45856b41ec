/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel side remembers. State lives in socket-local storage, so it is freed with its socket: nothing to evict,
 * nothing to leak. Every .bpf.c includes this; the linker keeps one copy of each map.
 */
#ifndef MPWATCH_MAPS_BPF_H
#define MPWATCH_MAPS_BPF_H

#include "read.bpf.h"

/*
 * What the handshake of a connection agreed on. Remembered, because a close clears it before the change to CLOSE is traced.
 * Zero: not known yet.
 */
struct handshake {
	/* Data sequence numbers of the first byte sent and received, where they are all there is to count with. */
	__u64 first_sent;
	__u64 first_received;
	__u32 token;
	__u32 remote_token;
};

/* A TCP socket: a subflow, or a plain TCP connection when those are traced too. */
struct subflow_state {
	__u64 cookie;
	__u64 created_ns;
	__u64 established_ns;
	__u64 first_seen_ns;
	__u64 closed_ns;
	__u64 heard_ns;
	__u64 joined_bytes;
	__u64 effective_ns;
	__u64 effective_bytes;
	__u64 sched_considered;
	__u64 sched_picked;
	/* Address of the connection's socket; never leaves the kernel. */
	__u64 msk;
	/* The connection's snd_una when it was last seen to grow, and when that was. */
	__u64 progress_seq;
	__u64 progress_ns;
	__u64 rtt_sampled_at;
	/* What the last snapshot told, condensed (snapshot.bpf.c). */
	__u64 told;
	/* What is sent from then on makes the next point; see sample.bpf.h. */
	__u64 point_due_us;
	__u32 flags;
	__u32 generation;
	__u32 handshake_us;
	__u32 stall_count;
	__u32 retrans_fast;
	__u32 retrans_timeout;
	__u32 retrans_probe;
	__u32 retrans_seen;
	__u32 write_seq_seen;
	/* Its place in the ledger; see ledger.bpf.h. */
	__u32 cost;
	__u32 ifindex;
	__u32 error;
	/* 1: the finals of this generation have been sent. */
	__u8 reported;
	__u8 reset_reason;
	/* The last change of state that was taken in. */
	__u8 handled;
	__u8 _reserved[5];
	__u8 ifname[MPW_NAME_LEN];
	struct mpw_owner owner;
	/* Of the connection. */
	struct handshake handshake;
	struct mpw_address local;
	struct mpw_address remote;
	struct mpw_stall stalls[MPW_STALLS];
	/* Counters as they were when the socket reached CLOSE: disconnecting for reuse zeroes the live ones. */
	struct mpw_tcp final;
	__u32 rtt_histogram[MPW_RTT_BUCKETS];
};

/* An MPTCP socket. */
struct connection_state {
	__u64 cookie;
	__u64 opened_ns;
	__u64 first_seen_ns;
	__u64 closed_ns;
	/* What the last snapshot told, condensed (snapshot.bpf.c). */
	__u64 told;
	struct handshake handshake;
	struct mpw_owner owner;
	/* 1: the end of what is to be sent is known, and takes up a sequence number (DATA_FIN). */
	__u8 fin_queued;
	/* The last change of state that was taken in. */
	__u8 handled;
	__u8 _reserved[2];
	/* Its place in the ledger; see ledger.bpf.h. */
	__u32 cost;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct subflow_state);
} subflows SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection_state);
} connections SEC(".maps") __weak;

/* Finals of subflows and connections. Sized by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps") __weak;

/* Takes what `events` had no room for; drained at every tick. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} overflow SEC(".maps") __weak;

/* One value with all counters, so that a program that counts several things looks it up once. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mpw_counters);
} counters SEC(".maps") __weak;

/* Where the accounts of each CPU stood when they were last asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mpw_cpu_accounts);
} settled SEC(".maps") __weak;

/* Where the iterators build a record: too large for the stack, and one reader at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mpw_subflow);
} scratch SEC(".maps") __weak;

/* Counts one or two things; `second` may be the same as `first` with nothing to add. */
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

/* Room for one record: in `events`, else in `overflow`, else NULL and counted as lost. */
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
