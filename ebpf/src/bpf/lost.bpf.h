/* SPDX-License-Identifier: GPL-2.0-only */
/* Counts payload that is in no record. Each byte counts once: with its connection when that closes, else with its subflow. */
#ifndef MPWATCH_LOST_BPF_H
#define MPWATCH_LOST_BPF_H

#include "ending.bpf.h"
#include "record.bpf.h"

/* Tokens of closed connections whose payload is in a record or counted as lost. It includes the payload of their subflows. */
MAP(counted_tokens, LRU_HASH, 8192, __u32, __u8);

static __always_inline void note_counted(__u32 token)
{
	__u8 value = 1;

	if (token)
		bpf_map_update_elem(&counted_tokens, &token, &value, BPF_ANY);
}

/* Whether the payload of a subflow counts with its connection: it has been counted, or will be when the connection closes. */
static __always_inline bool counts_with_connection(__u32 token, struct mptcp_sock *msk)
{
	if (token && bpf_map_lookup_elem(&counted_tokens, &token))
		return true;
	return msk && READ(msk, sk.icsk_inet.sk.__sk_common.skc_state) != TCP_CLOSE;
}

/* For a subflow whose record is lost. A connection that fell back may have no payload of its own: see count_by_sequence(). */
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
 * For a destroyed socket that had no storage, for lack of memory. Its flags are unknown. If no queue refused a segment, the kernel's counter is
 * exact; otherwise sequence numbers are exact, except that they may include SYN and FIN. The smaller of the two is counted.
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
 * For a connection whose final record is lost, or that has no storage. Both programs on a change of state call this if there is no storage,
 * or if the first of them has freed it (free_storage).
 */
static __noinline int count_lost_connection(struct connection_state *connection,
					    struct mptcp_sock *msk)
{
	struct mpw_msk final = {.state = TCP_CLOSE};
	__u32 token;

	if (connection)
		note_handshake(&connection->handshake, msk);
	token = connection ? connection->handshake.token : READ(msk, token);
	if (token && bpf_map_lookup_elem(&counted_tokens, &token))
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
