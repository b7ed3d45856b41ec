/* SPDX-License-Identifier: GPL-2.0-only */
/* Records how a subflow ends, before the kernel clears the state. User space derives the close reason from these flags (close.rs). */
#ifndef MPWATCH_ENDING_BPF_H
#define MPWATCH_ENDING_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"
#include "payload.bpf.h"

/* Records which end closed first, and whether the connection was still established. */
static __noinline int note_end(struct mpw_observed *observed, struct tcp_sock *tp, int new)
{
	struct mptcp_sock *msk = msk_of_subflow(observed, tp);

	if (observed->flags & (MPW_SF_FIN_SENT_FIRST | MPW_SF_FIN_RECEIVED_FIRST))
		return 0;
	if (new == TCP_FIN_WAIT1)
		observed->flags |= MPW_SF_FIN_SENT_FIRST;
	else if (new == TCP_CLOSE_WAIT)
		observed->flags |= MPW_SF_FIN_RECEIVED_FIRST;
	/* After a fallback, the connection ends with its only subflow. */
	if (msk && READ(msk, sk.icsk_inet.sk.__sk_common.skc_state) == TCP_ESTABLISHED &&
	    !msk_fell_back(msk))
		observed->flags |= MPW_SF_ENDED_ALONE;
	return 0;
}

/* MPW_SF_RM_ADDR_* of a subflow. The kernel keeps the last REMOVE_ADDR in each direction, even if the address id is reused. */
static __noinline __u32 removed_addresses(struct mpw_observed *observed, struct mptcp_sock *msk)
{
	return (rm_list_has(&msk->pm.rm_list_rx, observed->remote.id) ? MPW_SF_RM_ADDR_RECEIVED
								      : 0) |
	       (rm_list_has(&msk->pm.rm_list_tx, observed->local.id) ? MPW_SF_RM_ADDR_SENT : 0);
}

/*
 * Whether this host and its peer have acknowledged each other's DATA_FIN. In TCP_CLOSE, write_seq includes a DATA_FIN unless this host aborted
 * the connection, which kernels that lack `fastclosing` do not report. After a fallback, the kernel only simulates the acknowledgement.
 */
static __always_inline bool is_closed_in_order(struct mptcp_sock *msk)
{
	__u8 msk_state = READ(msk, sk.icsk_inet.sk.__sk_common.skc_state);
	__u64 fin_received = READ(msk, rcv_data_fin_seq);

	if (!bpf_core_field_exists(msk->fastclosing) || READ_BITS(msk, fastclosing) ||
	    msk_fell_back(msk))
		return false;
	return (msk_state == TCP_CLOSE || has_queued_fin(msk_state)) &&
	       READ(msk, snd_una) == READ(msk, write_seq) && fin_received &&
	       READ(msk, ack_seq) == fin_received + 1;
}

/*
 * A REMOVE_ADDR may arrive before or after the FIN that it causes, so the lists are checked when the subflow is closed. A REMOVE_ADDR that is
 * older than the subflow does not explain a reset, but explains a FIN, because the address was then probably removed a second time. If the peer
 * sent MP_FASTCLOSE on one subflow, the kernel resets the other subflows, possibly before the peer's own resets arrive.
 */
static __noinline int note_cause(struct mpw_observed *observed, struct mptcp_sock *msk)
{
	__u32 removed = removed_addresses(observed, msk);

	if (!(observed->flags & (MPW_SF_FIN_SENT_FIRST | MPW_SF_FIN_RECEIVED_FIRST)))
		removed &= ~(observed->flags >> MPW_SF_OLD_RM_ADDR_SHIFT);
	observed->flags |= removed;
	if (bpf_core_field_exists(msk->rcv_fastclose) && READ_BITS(msk, rcv_fastclose))
		observed->flags |= MPW_SF_RST_RECEIVED;
	else if (is_closed_in_order(msk))
		observed->flags |= MPW_SF_CLOSED_IN_ORDER;
	return 0;
}

/* Whether a handshake has succeeded, and the socket is not closed. */
static __always_inline bool is_open(int state)
{
	return state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT || has_queued_fin(state);
}

/* Whether anything was acknowledged or received. False for listeners and failed handshakes. */
static __always_inline bool has_carried_data(struct tcp_sock *tp)
{
	return tp->bytes_acked || tp->bytes_received;
}

/* Whether this is the last change of state before the kernel destroys an MPTCP socket: the application has closed it. */
static __always_inline bool is_last_change(struct sock *sk, int old, int new)
{
	return new == TCP_CLOSE && (old == TCP_CLOSE || sk->__sk_common.skc_flags & 1 << SOCK_DEAD);
}

#endif
