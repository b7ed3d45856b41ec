// SPDX-License-Identifier: GPL-2.0-only
/* Snapshots: storage iterators report the traced sockets of all namespaces. The tcp iterator, opened in each namespace, finds older sockets. */
#include "record.bpf.h"

static __always_inline __u64 mix(__u64 mixed, __u64 word)
{
	mixed = (mixed ^ word) * 0x9e3779b97f4a7c15ull;
	return mixed ^ mixed >> 29;
}

/* Adds the members of a record from `from` up to, not including, `to` to a 64-bit hash. */
#define MIX(mixed, record, from, to)                                               \
	mix_words(mixed, (__u64 *)(record), offsetof(typeof(*(record)), from) / 8, \
		  offsetof(typeof(*(record)), to) / 8)

static __always_inline __u64 mix_words(__u64 mixed, const __u64 *words, int from, int to)
{
#pragma clang loop unroll(disable)
	for (int i = from; i < to; i++)
		mixed = mix(mixed, words[i]);
	return mixed;
}

/*
 * An unchanged socket is reported again after 8 to 15 seconds, depending on its cookie, so that not all are due in one snapshot. This is well
 * below MAX_UNSEEN (seen.rs). Both times are in CLOCK_BOOTTIME: after the machine was suspended, all sockets are due.
 */
#define MIN_RELIST_S 8

static __always_inline bool is_due(__u64 listed_ns, __u64 now, __u64 cookie)
{
	return now - listed_ns >= (MIN_RELIST_S + cookie % 8) * 1000000000;
}

/* If the kernel is not preemptible, a read occupies the CPU until it ends. This limit ends a read after a few milliseconds. */
#define MAX_SKIPPED_PER_READ 8192

/* Sockets skipped in this read. One snapshot is read at a time. */
static __u32 skipped;

/* Writes nothing for this socket. Returns 1 to end the read before this socket; the next read begins with it. */
static __always_inline int skip(void)
{
	if (++skipped <= MAX_SKIPPED_PER_READ)
		return 0;
	skipped = 0;
	return 1;
}

static __always_inline long write_unchanged(struct seq_file *seq, __u32 kind, __u64 cookie,
					    __u32 generation)
{
	struct mpw_unchanged record = {.kind = kind, .generation = generation, .cookie = cookie};

	return bpf_seq_write(seq, &record, sizeof(record));
}

/*
 * Fingerprint of a few fields: each segment, each change of state and each found owner changes one of them. 0: no fingerprint, because the
 * socket has data in flight, so that timers may change it, or an exact ledger may charge the socket at any time.
 */
static __always_inline __u64 subflow_fingerprint(struct subflow_state *state, struct tcp_sock *tp)
{
	__u64 mixed;

	if (!tp || tp->packets_out || (settings.ledger && !settings.ledger_sampled))
		return 0;
	mixed = mix(1, (__u64)tp->segs_in << 32 | tp->segs_out);
	mixed = mix(mixed, tp->inet_conn.icsk_inet.sk.__sk_common.skc_state);
	mixed = mix(mixed, state->observed.closed_ns);
	if (settings.trace_tcp)
		mixed = mix(mixed, state->observed.owner.pid);
	return mixed;
}

static __always_inline __u64 connection_fingerprint(struct connection_state *connection,
						    struct mptcp_sock *msk)
{
	__u64 mixed;

	if (settings.ledger && !settings.ledger_sampled)
		return 0;
	mixed = mix(1, READ(msk, write_seq));
	mixed = mix(mixed, READ(msk, snd_nxt));
	mixed = mix(mixed, READ(msk, snd_una));
	mixed = mix(mixed, READ(msk, wnd_end));
	mixed = mix(mixed, READ(msk, ack_seq));
	mixed = mix(mixed, READ(msk, sk.icsk_inet.sk.__sk_common.skc_state));
	mixed = mix(mixed, connection->opened_ns);
	mixed = mix(mixed, connection->closed_ns);
	return mix(mixed, connection->owner.pid);
}

/*
 * Most sockets are idle. Nothing is written for them, because each read of 32 KiB walks a bucket of the kernel's map from its beginning.
 * A socket is skipped if its fingerprint has not changed since its full record was found unchanged. (The fingerprint alone is not enough: while
 * a segment is processed, its fields change before the rest of the record.) Every few seconds the socket is read in full and reported, so that
 * user space does not consider it closed.
 *
 * An unchanged socket has a short record. If a full record does not fit into the buffer, the iterator repeats the socket, so the hash of this
 * record must not be stored. The hash excludes the connection, which has a record of its own.
 */
SEC("iter/bpf_sk_storage_map")
int read_subflows(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct subflow_state *state = ctx->value;
	struct mpw_subflow *record;
	struct sock *sk = ctx->sk;
	__u64 hash, fingerprint, now;
	__u32 zero = 0;

	if (!state || !sk || !state->observed.cookie)
		return 0;
	fingerprint = subflow_fingerprint(state, bpf_skc_to_tcp_sock(sk));
	now = bpf_ktime_get_boot_ns();
	if (fingerprint && fingerprint == state->fingerprint &&
	    !is_due(state->listed_ns, now, state->observed.cookie))
		return skip();
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record)
		return 0;
	begin_subflow(record, state, sk);
	if (!record->kind)
		return 0;
	hash = MIX(state->rtt_sampled_at, record, kind, at_ns);
	hash = MIX(hash, record, netns_cookie, msk);
	if (hash == state->snapshot_hash) {
		if (!write_unchanged(ctx->meta->seq, MPW_RECORD_UNCHANGED_SUBFLOW,
				     state->observed.cookie, state->observed.generation)) {
			state->fingerprint = fingerprint;
			state->listed_ns = now;
		}
		return 0;
	}
	state->fingerprint = 0;
	complete_subflow(record, state, sk);
	if (bpf_seq_write(ctx->meta->seq, record, sizeof(*record)))
		return 0;
	state->snapshot_hash = hash;
	state->stalls_read_ns = now;
	state->reported.sent = record->tcp.payload_sent;
	state->reported.received = record->tcp.bytes_received;
	return 0;
}

SEC("iter/bpf_sk_storage_map")
int read_connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct connection_state *connection = ctx->value;
	struct mpw_connection *record;
	struct sock *sk = ctx->sk;
	__u64 hash, fingerprint, now;
	__u32 zero = 0;

	if (!connection || !sk || !connection->cookie)
		return 0;
	fingerprint = connection_fingerprint(connection, (struct mptcp_sock *)sk);
	now = bpf_ktime_get_boot_ns();
	if (fingerprint && fingerprint == connection->fingerprint &&
	    !is_due(connection->listed_ns, now, connection->cookie))
		return skip();
	/* Large enough: a connection's record is smaller than a subflow's. */
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record)
		return 0;
	fill_connection(record, connection, sk);
	hash = MIX(1, record, kind, at_ns);
	hash = mix_words(hash, (__u64 *)record, offsetof(struct mpw_connection, netns_cookie) / 8,
			 sizeof(*record) / 8);
	if (hash == connection->snapshot_hash) {
		if (!write_unchanged(ctx->meta->seq, MPW_RECORD_UNCHANGED_CONNECTION,
				     connection->cookie, 0)) {
			connection->fingerprint = fingerprint;
			connection->listed_ns = now;
		}
		return 0;
	}
	connection->fingerprint = 0;
	report_cgroup_of(sk);
	if (bpf_seq_write(ctx->meta->seq, record, sizeof(*record)))
		return 0;
	connection->snapshot_hash = hash;
	if (!(record->msk.flags & MPW_MSK_BYTES_UNKNOWN)) {
		connection->reported.sent = record->msk.bytes_sent;
		connection->reported.received = record->msk.bytes_received;
	}
	return 0;
}

SEC("iter/tcp")
int adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_sock *tp;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp || (!tp->is_mptcp && !settings.trace_tcp))
		return 0;
	if (skc->skc_state == TCP_LISTEN || skc->skc_state == TCP_CLOSE)
		return 0;
	/* The tracepoints are attached already, so a socket that opened since then has storage, which this call does not change. */
	adopt_subflow(tp);
	return 0;
}
