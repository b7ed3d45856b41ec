/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work units of a flow, from which the engine estimates CPU time outside of sampling windows: received packets (after GRO), changes of state,
 * and payload in both directions.
 */
#ifndef MPWATCH_WORK_BPF_H
#define MPWATCH_WORK_BPF_H

#include "ledger.bpf.h"
#include "maps.bpf.h"

/*
 * Counts work units. Payload carried across the start of a sampling window counts in the window, payload carried across its end does not; on
 * average the two errors cancel.
 */
static __always_inline void add_work(struct subflow_state *state, __u64 units)
{
	__u64 in_window = this_cpu() ? units : 0;

	state->observed.work += units;
	state->observed.window_work += in_window;
	count_both(MPW_COUNT_WORK, units, MPW_COUNT_WINDOW_WORK, in_window);
}

/* Counts a packet or a change of state. */
static __always_inline void count_packet(struct subflow_state *state)
{
	if (settings.ledger_sampled)
		add_work(state, MPW_WORK_PER_PACKET);
}

/* Counts the payload since the last call. */
static __always_inline void count_payload(struct subflow_state *state, struct tcp_sock *tp)
{
	__u64 kib = (tp->bytes_sent + tp->bytes_received) >> 10;

	if (!settings.ledger_sampled || kib == state->last_kib)
		return;
	/* A socket that connects again begins at 0. */
	if (kib > state->last_kib)
		add_work(state, kib - state->last_kib);
	state->last_kib = kib;
}

#endif
