/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Points of a subflow's path over time, from which user space finds shared bottlenecks (model/src/sample.rs). Taken where an
 * acknowledgement is about to be processed, thinned out, and sent in batches through a ring of their own, so that they never
 * displace a final record. What a segment costs in between is one comparison.
 */
#ifndef MPWATCH_SAMPLE_BPF_H
#define MPWATCH_SAMPLE_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/* Least time between the sending of two points, and how many points a round trip may have. */
#define POINT_US     1000
#define POINTS_A_RTT 16
/* A batch that is not full is sent when its first point is this old. */
#define BATCH_US 100000
/* How soon to look again whether a connection with one subflow has got another. */
#define LOOK_AGAIN_US 50000

/* The batch that a subflow fills. Only subflows that were sampled have one; freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mpw_samples);
} batches SEC(".maps") __weak;

/* Full batches. When it is full, batches are dropped and counted: verdicts then take longer. Sized by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} samples SEC(".maps") __weak;

/* Where neither field exists, every connection counts as having one subflow: no bottleneck is looked for. */
static __always_inline bool has_several_subflows(struct mptcp_sock *msk)
{
	struct mptcp_pm_data___extra *extra = (void *)&msk->pm;
	struct mptcp_pm_data___subflows *before = (void *)&msk->pm;

	if (bpf_core_field_exists(extra->extra_subflows))
		return READ(extra, extra_subflows);
	if (bpf_core_field_exists(before->subflows))
		return READ(before, subflows);
	return false;
}

/* Only points that are set are sent: slow subflows never fill a batch. */
static __always_inline void send_batch(struct mpw_samples *batch)
{
	__u64 points = batch->count;

	/* For the verifier; there is no room for more. */
	if (points > MPW_POINTS)
		return;
	/* Points carry times of the kernel's microsecond clock, which stands still while the machine sleeps. */
	batch->boot_offset_ns = bpf_ktime_get_boot_ns() - bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&samples, batch,
			       offsetof(struct mpw_samples, points) +
				       points * sizeof(struct mpw_point),
			       BPF_RB_NO_WAKEUP))
		count(MPW_COUNT_POINTS_LOST, batch->count);
	batch->count = 0;
}

static __always_inline void append_point(struct mpw_samples *batch, struct tcp_sock *tp, __u64 at)
{
	__u8 ca_state = READ_BITS(&tp->inet_conn, icsk_ca_state);
	__u32 place = batch->count;
	struct mpw_point *point;

	/* For the verifier; a full batch was sent. */
	if (place >= MPW_POINTS)
		return;
	point = &batch->points[place];
	point->at_us = at;
	point->rtt_us = tp->rack.rtt_us;
	point->delivered = tp->delivered;
	point->lost = tp->lost;
	point->cut = ca_state >= TCP_CA_CWR;
	batch->count = place + 1;
	if (batch->count == MPW_POINTS || at - batch->points[0].at_us >= BATCH_US)
		send_batch(batch);
}

/* Least time between the sending of two points, in microseconds. */
static __always_inline __u64 sampling_interval(struct tcp_sock *tp)
{
	/* srtt_us is in eighths of a microsecond. */
	__u32 interval = (tp->srtt_us >> 3) / POINTS_A_RTT;

	return interval > POINT_US ? interval : POINT_US;
}

/*
 * The tracepoint fires before the segment at hand is processed, so this is the state after the one before it, with that one's own
 * time: see sample_rtt(). `msk`: its connection.
 */
static __always_inline void take_point(struct subflow_state *state, struct sock *sk,
				       struct tcp_sock *tp, struct mptcp_sock *msk)
{
	__u64 at = tp->delivered_mstamp;
	__u32 rtt_us = tp->rack.rtt_us;
	/* By time of sending: acknowledgements that come all at once tell of queues at different times. */
	__u64 sent = at - rtt_us;
	struct mpw_samples *batch;

	if (sent <= state->point_due_us || !rtt_us)
		return;
	if (!settings.lone_samples && !has_several_subflows(msk)) {
		state->point_due_us = sent + LOOK_AGAIN_US;
		return;
	}
	state->point_due_us = sent + sampling_interval(tp) - 1;
	batch = bpf_sk_storage_get(&batches, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!batch)
		return;
	/* The kernel uses the socket of a first subflow again; what was left is of the one before. */
	if (batch->generation != state->generation)
		batch->count = 0;
	batch->kind = MPW_RECORD_SAMPLES;
	batch->cookie = state->cookie;
	batch->generation = state->generation;
	append_point(batch, tp, at);
}

#endif
