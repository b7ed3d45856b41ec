/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When a connection makes no progress, as one of its subflows sees it. Looked at before a segment is processed and before
 * data is scheduled; what the looks of all subflows have in common is found in user space (agent/src/tracker/stall.rs).
 */
#ifndef MPWATCH_STALL_BPF_H
#define MPWATCH_STALL_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/* A pause shorter than this is no stall: one retransmission timeout is at least 200 ms. */
#define STALL_NS (100ull * 1000 * 1000)

static __always_inline void note_stall(struct subflow_state *state, __u64 to)
{
	struct mpw_stall *stall = &state->stalls[state->stall_count % MPW_STALLS];

	stall->from_ns = state->progress_ns;
	stall->to_ns = to;
	stall->unacked = !!(state->flags & MPW_SF_UNACKED);
	state->stall_count++;
}

/* Whether payload waits for its acknowledgement; the DATA_FIN of a closing connection is none, but counts as a byte. */
static __always_inline bool payload_waits(struct mptcp_sock *msk, __u64 snd_una)
{
	__u64 outstanding = READ(msk, snd_nxt) - snd_una;
	__u8 msk_state;

	if (outstanding != 1)
		return outstanding;
	msk_state = READ(msk, sk.icsk_inet.sk.__sk_common.skc_state);
	return msk_state == TCP_ESTABLISHED || msk_state == TCP_CLOSE_WAIT;
}

/*
 * Called before the segment at hand is processed, so progress that shows now is that of the segment heard before it, and
 * was made then. (Or on another subflow since: then that one saw it better.)
 */
static __always_inline void watch_progress(struct subflow_state *state, struct mptcp_sock *msk)
{
	__u64 snd_una = READ(msk, snd_una);
	__u64 at = state->heard_ns;

	if (snd_una == state->progress_seq)
		return;
	state->progress_seq = snd_una;
	/* It has been idle, and began to wait, since. */
	if (at < state->progress_ns)
		return;
	if (state->progress_ns && at - state->progress_ns > STALL_NS)
		note_stall(state, at);
	state->progress_ns = at;
	if (payload_waits(msk, snd_una))
		state->flags |= MPW_SF_UNACKED;
	else
		state->flags &= ~MPW_SF_UNACKED;
}

/* Data is about to be sent while none is outstanding: until now the application was idle, from now on it waits. */
static __always_inline void begin_to_wait(struct subflow_state *state, struct mptcp_sock *msk)
{
	if (READ(msk, snd_nxt) != READ(msk, snd_una))
		return;
	watch_progress(state, msk);
	state->progress_ns = bpf_ktime_get_boot_ns();
	state->flags |= MPW_SF_UNACKED;
}

#endif
