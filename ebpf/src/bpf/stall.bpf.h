/* SPDX-License-Identifier: GPL-2.0-only */
/* Stalls as one subflow sees them, checked before a segment is processed or data is scheduled. User space combines them (stall.rs). */
#ifndef MPWATCH_STALL_BPF_H
#define MPWATCH_STALL_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

static __always_inline void note_stall(struct mpw_observed *observed, __u64 to)
{
	struct mpw_stall *stall = &observed->stalls[observed->stall_count % MPW_STALLS];

	stall->from_ns = observed->progress_ns;
	stall->to_ns = to;
	stall->unacked = !!(observed->flags & MPW_SF_UNACKED);
	observed->stall_count++;
}

/* Whether payload is unacknowledged. The DATA_FIN of a closing connection is not payload, but takes up one sequence number. */
static __always_inline bool payload_waits(struct mptcp_sock *msk, __u64 snd_una)
{
	__u64 outstanding = READ(msk, snd_nxt) - snd_una;
	__u8 msk_state;

	if (outstanding != 1)
		return outstanding;
	msk_state = READ(msk, sk.icsk_inet.sk.__sk_common.skc_state);
	return msk_state == TCP_ESTABLISHED || msk_state == TCP_CLOSE_WAIT;
}

/* Called before the kernel processes a segment: progress seen now was made by the previous segment, or was seen by another subflow. */
static __always_inline void update_progress(struct subflow_state *state, struct mptcp_sock *msk)
{
	__u64 snd_una = READ(msk, snd_una);
	__u64 at = state->heard_ns;
	struct mpw_observed *observed = &state->observed;

	if (snd_una == state->progress_seq)
		return;
	state->progress_seq = snd_una;
	/* The application was idle since, and sends again (start_waiting()). */
	if (at < observed->progress_ns)
		return;
	if (observed->progress_ns && at - observed->progress_ns > MPW_MIN_STALL_NS)
		note_stall(observed, at);
	observed->progress_ns = at;
	if (payload_waits(msk, snd_una))
		observed->flags |= MPW_SF_UNACKED;
	else
		observed->flags &= ~MPW_SF_UNACKED;
}

/* Data will be sent while none is outstanding: the application was idle, and now waits for an acknowledgement. */
static __always_inline void start_waiting(struct subflow_state *state, struct mptcp_sock *msk)
{
	if (READ(msk, snd_nxt) != READ(msk, snd_una))
		return;
	update_progress(state, msk);
	state->observed.progress_ns = bpf_ktime_get_boot_ns();
	state->observed.flags |= MPW_SF_UNACKED;
}

#endif
