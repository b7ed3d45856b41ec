/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is noted of a subflow's end while the kernel still knows it. Flags only; what reason follows from them is decided in
 * user space (agent/src/tracker/close.rs).
 */
#ifndef MPWATCH_ENDING_BPF_H
#define MPWATCH_ENDING_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/* Who began the end, while the kernel still knows what else was going on. */
static __noinline int note_end(struct subflow_state *state, struct tcp_sock *tp, int new)
{
	struct mptcp_subflow_context *subflow = subflow_of(tp);
	struct mptcp_sock *msk;

	if (state->flags & (MPW_SF_FIN_SENT_FIRST | MPW_SF_FIN_RECEIVED_FIRST))
		return 0;
	if (new == TCP_FIN_WAIT1)
		state->flags |= MPW_SF_FIN_SENT_FIRST;
	else if (new == TCP_CLOSE_WAIT)
		state->flags |= MPW_SF_FIN_RECEIVED_FIRST;
	if (!(state->flags & MPW_SF_MPTCP) || !subflow)
		return 0;
	msk = msk_of(subflow);
	if (READ(msk, sk.icsk_inet.sk.__sk_common.skc_state) == TCP_ESTABLISHED)
		state->flags |= MPW_SF_ENDED_ALONE;
	return 0;
}

/* A REMOVE_ADDR may come before or after the FIN that it causes, so the lists are looked at when the end is complete. */
static __noinline int note_removed_address(struct subflow_state *state, struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow = subflow_of(tp);
	struct mptcp_sock *msk;

	if (!(state->flags & MPW_SF_MPTCP) || !subflow)
		return 0;
	msk = msk_of(subflow);
	if (!msk)
		return 0;
	if (rm_list_has(&msk->pm.rm_list_rx, state->remote.id))
		state->flags |= MPW_SF_RM_ADDR_RECEIVED;
	if (rm_list_has(&msk->pm.rm_list_tx, state->local.id))
		state->flags |= MPW_SF_RM_ADDR_SENT;
	return 0;
}

/*
 * The peer aborted the connection: its reset came with MP_FASTCLOSE on one subflow, and the kernel answers with resets of
 * its own on the others, which may overtake the peer's.
 */
static __noinline int note_fast_close(struct subflow_state *state, struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow = subflow_of(tp);
	struct mptcp_sock *msk;

	if (!(state->flags & MPW_SF_MPTCP) || !subflow)
		return 0;
	msk = msk_of(subflow);
	if (msk && bpf_core_field_exists(msk->rcv_fastclose) && READ_BITS(msk, rcv_fastclose))
		state->flags |= MPW_SF_RST_RECEIVED;
	return 0;
}

#endif
