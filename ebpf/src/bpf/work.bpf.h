/* SPDX-License-Identifier: GPL-2.0-only */
/* A flow's work between the windows of a sampled ledger: packets received (after GRO), changes of state, and payload in both directions. */
#ifndef MPWATCH_WORK_BPF_H
#define MPWATCH_WORK_BPF_H

#include "ledger.bpf.h"
#include "maps.bpf.h"

/*
 * Counts work. Payload that was carried across the begin of a window counts for the window, payload across its end does not: on average the
 * two are equal.
 */
static __always_inline void add_work(struct subflow_state *state, __u64 work)
{
	__u64 in_window = this_cpu() ? work : 0;

	state->observed.work += work;
	state->observed.window_work += in_window;
	count_both(MPW_COUNT_WORK, work, MPW_COUNT_WINDOW_WORK, in_window);
}

/* A packet or a change of state. */
static __always_inline void count_packet(struct subflow_state *state)
{
	if (settings.ledger_sampled)
		add_work(state, MPW_WORK_PER_PACKET);
}

/* The payload since the last call. */
static __always_inline void count_payload(struct subflow_state *state, struct tcp_sock *tp)
{
	__u64 kib = (tp->bytes_sent + tp->bytes_received) >> 10;

	if (!settings.ledger_sampled || kib == state->kib_seen)
		return;
	/* A socket that is connected again begins at 0. */
	if (kib > state->kib_seen)
		add_work(state, kib - state->kib_seen);
	state->kib_seen = kib;
}

#endif
