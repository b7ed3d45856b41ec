// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading everything at once. One read of a storage iterator gives every tracked socket of every network namespace with
 * fresh counters; the tcp iterator, opened inside each namespace once, adopts what is older than the agent.
 */
#include "record.bpf.h"

static __always_inline __u64 mix(__u64 mixed, __u64 word)
{
	mixed = (mixed ^ word) * 0x9e3779b97f4a7c15ull;
	return mixed ^ mixed >> 29;
}

/* A member of a record, or all from one member up to another, condensed to 64 bits. */
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

static __always_inline void tell_unchanged(struct seq_file *seq, __u32 kind, __u64 cookie,
					   __u32 generation)
{
	struct mpw_unchanged record = {.kind = kind, .generation = generation, .cookie = cookie};

	bpf_seq_write(seq, &record, sizeof(record));
}

/*
 * Most of many sockets are idle. Of one that is as it was, only that is told: a record is long, and what a read of the iterator cannot
 * hold makes the next one walk from the start. (A record that did not fit is asked for again, and must not count as told.) The view of
 * the connection in a subflow's record does not count: the connection's own record has it.
 */
SEC("iter/bpf_sk_storage_map")
int read_subflows(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct subflow_state *state = ctx->value;
	struct mpw_subflow *record;
	struct sock *sk = ctx->sk;
	__u64 now_told;
	__u32 zero = 0;

	if (!state || !sk)
		return 0;
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record || !state->cookie)
		return 0;
	begin_subflow(record, state, sk);
	if (!record->kind)
		return 0;
	now_told = MIX(state->rtt_sampled_at, record, kind, at_ns);
	now_told = MIX(now_told, record, cookie, msk);
	now_told = MIX(now_told, record, tcp, rtt_histogram);
	if (now_told == state->told) {
		tell_unchanged(ctx->meta->seq, MPW_RECORD_UNCHANGED_SUBFLOW, state->cookie,
			       state->generation);
		return 0;
	}
	complete_subflow(record, state, sk);
	if (!bpf_seq_write(ctx->meta->seq, record, sizeof(*record)))
		state->told = now_told;
	return 0;
}

SEC("iter/bpf_sk_storage_map")
int read_connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct connection_state *state = ctx->value;
	struct mpw_connection *record;
	struct sock *sk = ctx->sk;
	__u32 zero = 0;
	__u64 now_told;

	if (!state || !sk || !state->cookie)
		return 0;
	/* Of a subflow's size, which is larger. */
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record)
		return 0;
	fill_connection(record, state, sk);
	now_told = MIX(1, record, kind, at_ns);
	now_told =
		mix_words(now_told, (__u64 *)record,
			  offsetof(struct mpw_connection, netns_cookie) / 8, sizeof(*record) / 8);
	if (now_told == state->told) {
		tell_unchanged(ctx->meta->seq, MPW_RECORD_UNCHANGED_CONNECTION, state->cookie, 0);
		return 0;
	}
	if (!bpf_seq_write(ctx->meta->seq, record, sizeof(*record)))
		state->told = now_told;
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
	/* Tracepoints are attached first, so a socket that has storage is already known, better than we know it here. */
	adopt_subflow(tp);
	return 0;
}
