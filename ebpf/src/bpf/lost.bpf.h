/* SPDX-License-Identifier: GPL-2.0-only */
/* Counts payload that is in no record: each byte once, of a connection when it closes, else of its subflows. */
#ifndef MPWATCH_LOST_BPF_H
#define MPWATCH_LOST_BPF_H

#include "ending.bpf.h"
#include "record.bpf.h"

/* Tokens of closed connections. Their payload, which is that of all their subflows, is in their records or counted as lost. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u8);
} settled_tokens SEC(".maps");

static __always_inline void settle(__u32 token)
{
	__u8 one = 1;

	if (token)
		bpf_map_update_elem(&settled_tokens, &token, &one, BPF_ANY);
}

/* Whether the payload of a subflow is that of its connection, which is settled, or will be when the connection closes. */
static __always_inline bool is_left_to_connection(__u32 token, struct mptcp_sock *msk)
{
	if (token && bpf_map_lookup_elem(&settled_tokens, &token))
		return true;
	return msk && READ(msk, sk.icsk_inet.sk.__sk_common.skc_state) != TCP_CLOSE;
}

/* The record of a subflow is lost. A connection that fell back may have no payload of its own: see count_by_sequence(). */
static __noinline int lose_subflow(struct subflow_state *state, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct mptcp_sock *msk = NULL;

	if (!tp)
		return 0;
	if (msk_counts_bytes() || state->handshake.first_received)
		msk = msk_of_subflow(state, sk);
	if (!is_left_to_connection(state->handshake.token, msk))
		count_lost(state->final.payload_sent, payload_received(tp), state->reported);
	return 0;
}

/*
 * A socket that got no storage, for lack of memory, is destroyed. Its flags are unknown: without refused segments, the kernel's count is
 * exact, and else its sequence numbers are, but for SYN and FIN.
 */
static __always_inline void lose_untraced(struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow = tp->is_mptcp ? subflow_of(tp) : NULL;
	struct mptcp_sock *msk = subflow && msk_counts_bytes() ? msk_of(subflow) : NULL;
	__u64 counted = tp->bytes_sent - tp->bytes_retrans, sent = payload_sent(tp, 0);

	if (!has_carried_data(tp) || (!tp->is_mptcp && !settings.trace_tcp))
		return;
	if (!is_left_to_connection(subflow ? READ(subflow, token) : 0, msk))
		count_lost(sent < counted ? sent : counted, payload_received(tp),
			   (struct payload){});
}

/*
 * The final record of a connection is lost, or the connection got no storage. Both programs on a change of state get here if it has none, or
 * if the first has freed it (free_storage).
 */
static __noinline int lose_connection(struct connection_state *connection, struct mptcp_sock *msk)
{
	struct mpw_msk final = {.state = TCP_CLOSE};
	__u32 token;

	if (connection)
		note_handshake(&connection->handshake, msk);
	token = connection ? connection->handshake.token : READ(msk, token);
	if (token && bpf_map_lookup_elem(&settled_tokens, &token))
		return 0;
	if (connection)
		read_payload(&final, connection, msk);
	else
		read_counters(&final, msk);
	if (final.flags & MPW_MSK_BYTES_UNKNOWN)
		return 0;
	count_lost(final.bytes_sent, final.bytes_received,
		   connection ? connection->reported : (struct payload){});
	settle(token);
	if (connection)
		connection->lost = 1;
	return 0;
}

#endif
