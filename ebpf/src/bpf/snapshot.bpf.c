// SPDX-License-Identifier: GPL-2.0-only
/* Snapshots: storage iterators list the tracked sockets of all namespaces; the tcp iterator, opened in each, finds older sockets. */
#include "record.bpf.h"

static __always_inline __u64 mix(__u64 mixed, __u64 word)
{
	mixed = (mixed ^ word) * 0x9e3779b97f4a7c15ull;
	return mixed ^ mixed >> 29;
}

/* Adds the members from `from` up to `to` to a 64-bit hash. */
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

static __always_inline void write_unchanged(struct seq_file *seq, __u32 kind, __u64 cookie,
					    __u32 generation)
{
	struct mpw_unchanged record = {.kind = kind, .generation = generation, .cookie = cookie};

	bpf_seq_write(seq, &record, sizeof(record));
}

/*
 * Most sockets are idle, so an unchanged one has a short record: a full record that does not fit into the read makes the iterator start
 * over (and comes again, so its hash must not be stored). The hash excludes the connection, which has a record of its own.
 */
SEC("iter/bpf_sk_storage_map")
int read_subflows(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct subflow_state *state = ctx->value;
	struct mpw_subflow *record;
	struct sock *sk = ctx->sk;
	__u64 hash;
	__u32 zero = 0;

	if (!state || !sk)
		return 0;
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record || !state->observed.cookie)
		return 0;
	begin_subflow(record, state, sk);
	if (!record->kind)
		return 0;
	hash = MIX(state->rtt_sampled_at, record, kind, at_ns);
	hash = MIX(hash, record, netns_cookie, msk);
	if (hash == state->snapshot_hash) {
		write_unchanged(ctx->meta->seq, MPW_RECORD_UNCHANGED_SUBFLOW,
				state->observed.cookie, state->observed.generation);
		return 0;
	}
	complete_subflow(record, state, sk);
	if (!bpf_seq_write(ctx->meta->seq, record, sizeof(*record)))
		state->snapshot_hash = hash;
	return 0;
}

SEC("iter/bpf_sk_storage_map")
int read_connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct connection_state *connection = ctx->value;
	struct mpw_connection *record;
	struct sock *sk = ctx->sk;
	__u32 zero = 0;
	__u64 hash;

	if (!connection || !sk || !connection->cookie)
		return 0;
	/* Large enough: a subflow's record is larger. */
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record)
		return 0;
	fill_connection(record, connection, sk);
	hash = MIX(1, record, kind, at_ns);
	hash = mix_words(hash, (__u64 *)record, offsetof(struct mpw_connection, netns_cookie) / 8,
			 sizeof(*record) / 8);
	if (hash == connection->snapshot_hash) {
		write_unchanged(ctx->meta->seq, MPW_RECORD_UNCHANGED_CONNECTION, connection->cookie,
				0);
		return 0;
	}
	report_cgroup_of(sk);
	if (!bpf_seq_write(ctx->meta->seq, record, sizeof(*record)))
		connection->snapshot_hash = hash;
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
	/* Tracepoints are attached first, so a socket with storage was seen to open and needs nothing here. */
	adopt_subflow(tp);
	return 0;
}
