/* SPDX-License-Identifier: GPL-2.0-only */
/* Payload of a connection, from kernel counters (6.5 and later) or from sequence numbers, which begin at a hash of the keys (RFC 8684 3.1). */
#ifndef MPWATCH_PAYLOAD_BPF_H
#define MPWATCH_PAYLOAD_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/* Whether the application has closed its side, from the state of a TCP or MPTCP socket; write_seq then includes the FIN or DATA_FIN. */
static __always_inline bool has_queued_fin(__u8 state)
{
	return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING ||
	       state == TCP_LAST_ACK;
}

/* Number of sequence numbers from `first` up to `next`, without the DATA_FIN if `fin` is set. */
static __always_inline __u64 payload_between(__u64 first, __u64 next, bool fin)
{
	return next > first && fin ? next - first - 1 : next - first;
}

/*
 * Computes byte counts from sequence numbers. An unknown key of the peer means that there is no data yet, or that the connection fell back,
 * so that its only subflow has the counts. Kernel fields may change meanwhile, so each is read once.
 */
static __always_inline void
count_by_sequence(struct mpw_msk *out, struct connection_state *connection, struct mptcp_sock *msk)
{
	__u64 fin_received = READ(msk, rcv_data_fin_seq);
	struct handshake *handshake = &connection->handshake;
	__u64 write_seq = READ(msk, write_seq);
	__u64 snd_nxt = READ(msk, snd_nxt);
	__u64 ack_seq = READ(msk, ack_seq);

	if (!handshake->first_received) {
		if (msk_fell_back(msk) || (out->state == TCP_SYN_SENT && !connection->closed_ns))
			out->flags |= MPW_MSK_BYTES_UNKNOWN;
		return;
	}
	connection->fin_queued |= has_queued_fin(out->state);
	out->bytes_sent = payload_between(handshake->first_sent, snd_nxt,
					  connection->fin_queued && snd_nxt == write_seq);
	out->bytes_acked = READ(msk, snd_una) - handshake->first_sent;
	out->bytes_received = payload_between(handshake->first_received, ack_seq,
					      fin_received && ack_seq == fin_received + 1);
}

/* Without kernel counters only the connection's own record has byte counts: see count_by_sequence(). */
static __always_inline void read_counters(struct mpw_msk *out, struct mptcp_sock *msk)
{
	if (!msk_counts_bytes()) {
		out->flags |= MPW_MSK_BYTES_UNKNOWN;
		return;
	}
	out->flags |= MPW_MSK_HAS_RETRANS;
	out->bytes_sent = READ(msk, bytes_sent);
	out->bytes_received = READ(msk, bytes_received);
	out->bytes_acked = READ(msk, bytes_acked);
	out->bytes_retrans = READ(msk, bytes_retrans);
}

/* For a connection's own record. */
static __always_inline void read_payload(struct mpw_msk *out, struct connection_state *connection,
					 struct mptcp_sock *msk)
{
	if (msk_counts_bytes())
		read_counters(out, msk);
	else
		count_by_sequence(out, connection, msk);
}

/*
 * For the record of a subflow. A connection with storage has a cookie, and then only the connection's own records have its payload, so that
 * lost payload is counted once.
 */
static __always_inline void read_payload_for_subflow(struct mpw_msk *out, struct mptcp_sock *msk)
{
	if (!out->cookie || !msk_counts_bytes())
		read_counters(out, msk);
	else
		out->flags |= MPW_MSK_BYTES_UNKNOWN | MPW_MSK_BYTES_APART;
}

/* Counts lost payload: the part that exceeds `reported`, which was in an earlier record. */
static __always_inline void count_lost(__u64 sent, __u64 received, struct payload reported)
{
	count_both(MPW_COUNT_LOST_BYTES_SENT, sent > reported.sent ? sent - reported.sent : 0,
		   MPW_COUNT_LOST_BYTES_RECEIVED,
		   received > reported.received ? received - reported.received : 0);
}

/* Sum of both directions, cheap enough for the packet path. 0: unknown. A DATA_FIN may count as a byte. */
static __always_inline __u64 payload_so_far(struct handshake *handshake, struct mptcp_sock *msk)
{
	if (msk_counts_bytes())
		return READ(msk, bytes_sent) + READ(msk, bytes_received);
	if (!handshake->first_received)
		return 0;
	return READ(msk, snd_nxt) - handshake->first_sent + READ(msk, ack_seq) -
	       handshake->first_received;
}

/* As payload_so_far(), but without data in flight. */
static __always_inline __u64 payload_arrived(struct handshake *handshake, struct mptcp_sock *msk)
{
	if (msk_counts_bytes())
		return READ(msk, bytes_acked) + READ(msk, bytes_received);
	if (!handshake->first_received)
		return 0;
	return READ(msk, snd_una) - handshake->first_sent + READ(msk, ack_seq) -
	       handshake->first_received;
}

#endif
