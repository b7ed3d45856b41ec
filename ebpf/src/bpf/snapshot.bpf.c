// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading everything at once. One read of a storage iterator gives every tracked socket of every network namespace with
 * fresh counters; the tcp iterator, opened inside each namespace once, adopts what is older than the agent.
 */
#include "record.bpf.h"

SEC("iter/bpf_sk_storage_map")
int read_subflows(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct subflow_state *state = ctx->value;
	struct sock *sk = ctx->sk;
	struct mpw_subflow *record;
	__u32 zero = 0;

	if (!state || !sk)
		return 0;
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record || !state->cookie)
		return 0;
	fill_subflow(record, state, sk);
	if (record->kind)
		bpf_seq_write(ctx->meta->seq, record, sizeof(*record));
	return 0;
}

SEC("iter/bpf_sk_storage_map")
int read_connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct connection_state *state = ctx->value;
	struct mpw_connection *record;
	struct sock *sk = ctx->sk;
	__u32 zero = 0;

	if (!state || !sk || !state->cookie)
		return 0;
	/* Of a subflow's size, which is larger. */
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record)
		return 0;
	fill_connection(record, state, sk);
	bpf_seq_write(ctx->meta->seq, record, sizeof(*record));
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
