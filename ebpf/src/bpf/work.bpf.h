/* SPDX-License-Identifier: GPL-2.0-only */
/* A flow's work between the windows of a sampled ledger: packets received (after GRO), changes of state, and payload in both directions. */
#ifndef MPWATCH_WORK_BPF_H
#define MPWATCH_WORK_BPF_H

#include "ledger.bpf.h"
#include "maps.bpf.h"

/*
 * Counts a packet or a change of state, and the payload since the previous one. Payload that was carried across the begin of a window counts
 * for the window, payload across its end does not: on average the two are equal.
 */
static __always_inline void count_work(struct subflow_state *state, struct tcp_sock *tp)
{
	__u64 kib, work = MPW_WORK_PER_PACKET;

	if (!settings.ledger_sampled)
		return;
	kib = (tp->bytes_sent + tp->bytes_received) >> 10;
	/* A socket that is connected again begins at 0. */
	if (kib > state->kib_seen)
		work += kib - state->kib_seen;
	state->kib_seen = kib;
	state->observed.work += work;
	if (this_cpu())
		state->observed.window_work += work;
}

#endif
