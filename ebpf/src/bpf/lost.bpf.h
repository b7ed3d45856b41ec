/* SPDX-License-Identifier: GPL-2.0-only */
/* Counts lost payload, which no record reports. Each byte counts once: with its connection when this closes, else with its subflow. */
#ifndef MPWATCH_LOST_BPF_H
#define MPWATCH_LOST_BPF_H

#include "ending.bpf.h"
#include "record.bpf.h"

/* Tokens of closed connections whose payload, including the payload of their subflows, is in a record or counted as lost. */
MAP(counted_tokens, LRU_HASH, 8192, __u32, __u8);

static __always_inline void note_counted(__u32 token)
{
	__u8 value = 1;

	if (token)
		bpf_map_update_elem(&counted_tokens, &token, &value, BPF_ANY);
}

static __always_inline bool is_counted(__u32 token)
{
	return token && bpf_map_lookup_elem(&counted_tokens, &token);
}

/* Whether the payload of a subflow counts with its connection: it has been counted, or will be when the connection closes. */
static __always_inline bool counts_with_connection(__u32 token, struct mptcp_sock *msk)
{
	if (is_counted(token))
		return true;
	return msk && READ(msk, sk.icsk_inet.sk.__sk_common.skc_state) != TCP_CLOSE;
}

/* Counts the payload of a subflow whose record is lost. A connection that fell back may have no byte counts: see count_by_sequence(). */
static __noinline int count_lost_subflow(struct subflow_state *state, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct mptcp_sock *msk = NULL;

	if (!tp)
		return 0;
	if (msk_counts_bytes() || state->handshake.first_received)
		msk = msk_of_subflow(&state->observed, tp);
	if (!counts_with_connection(state->handshake.token, msk))
		count_lost(state->final.payload_sent, payload_received(tp), state->reported);
	return 0;
}

/*
 * Counts the payload of a destroyed socket that had no storage, for lack of memory, so its flags are unknown. The kernel's counter is too
 * large if a queue refused a segment; sequence numbers may include SYN and FIN. So the smaller of the two is counted.
 */
static __always_inline void count_lost_untraced(struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow = tp->is_mptcp ? subflow_of(tp) : NULL;
	struct mptcp_sock *msk = subflow && msk_counts_bytes() ? msk_of(subflow) : NULL;
	__u64 counted = tp->bytes_sent - tp->bytes_retrans, sent = payload_sent(tp, 0);

	if (!has_carried_data(tp) || (!tp->is_mptcp && !settings.trace_tcp))
		return;
	if (!counts_with_connection(subflow ? READ(subflow, token) : 0, msk))
		count_lost(sent < counted ? sent : counted, payload_received(tp),
			   (struct payload){});
}

/*
 * Counts the payload of a connection whose final record is lost, or that has no storage. Without storage, or after free_storage(), both
 * on_set_state() and on_set_state_nested() call this for the same connection; counted_tokens prevents a second count.
 */
static __noinline int count_lost_connection(struct connection_state *connection,
					    struct mptcp_sock *msk)
{
	struct mpw_msk final = {.state = TCP_CLOSE};
	__u32 token;

	if (connection)
		note_handshake(&connection->handshake, msk);
	token = connection ? connection->handshake.token : READ(msk, token);
	if (is_counted(token))
		return 0;
	if (connection)
		read_payload(&final, connection, msk);
	else
		read_counters(&final, msk);
	if (final.flags & MPW_MSK_BYTES_UNKNOWN)
		return 0;
	count_lost(final.bytes_sent, final.bytes_received,
		   connection ? connection->reported : (struct payload){});
	note_counted(token);
	if (connection)
		connection->lost = 1;
	return 0;
}

#endif
