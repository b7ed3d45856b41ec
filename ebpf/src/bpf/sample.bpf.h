/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RTT samples of subflows for bottleneck detection (model/src/kernel/sample.rs), at most one per interval, sent in batches through a separate
 * ring, so that they never displace a final record. A segment without a sample costs one comparison.
 */
#ifndef MPWATCH_SAMPLE_BPF_H
#define MPWATCH_SAMPLE_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/* Minimum interval between two samples, from the times at which the measured data was sent, and maximum number of samples per round trip. */
#define MIN_INTERVAL_US 1000
#define SAMPLES_PER_RTT 16
/* A batch whose first sample is this old is sent even if it is not full. */
#define MAX_BATCH_AGE_US 100000
/* Interval between checks whether a connection with one subflow has a second one. */
#define RECHECK_US 50000

/* The batch that a subflow fills. Only sampled subflows have a batch. Freed with the socket. */
STORAGE(batches, SK_STORAGE, struct mpw_sample_batch);

/* Ring of batches. User space may change its size. If the ring is full, samples are dropped and counted, and verdicts take longer. */
RING(samples, MPW_SAMPLES_BYTES);

/* If the kernel has neither field, every connection counts as having one subflow, and no samples are taken. */
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

/* Sends only the used part, because slow subflows never fill a batch. */
static __always_inline void send_batch(struct mpw_sample_batch *batch)
{
	__u64 used = batch->count;

	/* Never true; only for the verifier. */
	if (used > MPW_BATCH_SAMPLES)
		return;
	/* Samples have times of the kernel's microsecond clock, which stops while the machine is suspended. */
	batch->boot_offset_ns = bpf_ktime_get_boot_ns() - bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&samples, batch,
			       offsetof(struct mpw_sample_batch, samples) +
				       used * sizeof(struct mpw_delay_sample),
			       BPF_RB_NO_WAKEUP))
		count(MPW_COUNT_SAMPLES_LOST, batch->count);
	batch->count = 0;
}

static __always_inline void append_sample(struct mpw_sample_batch *batch, struct tcp_sock *tp,
					  __u64 at)
{
	__u8 ca_state = READ_BITS(&tp->inet_conn, icsk_ca_state);
	struct mpw_delay_sample *sample;
	__u32 index = batch->count;

	/* Never true, because a full batch was sent; only for the verifier. */
	if (index >= MPW_BATCH_SAMPLES)
		return;
	sample = &batch->samples[index];
	sample->at_us = at;
	sample->rtt_us = tp->rack.rtt_us;
	sample->delivered = tp->delivered;
	sample->lost = tp->lost;
	sample->cut = ca_state >= TCP_CA_CWR;
	batch->count = index + 1;
	if (batch->count == MPW_BATCH_SAMPLES || at - batch->samples[0].at_us >= MAX_BATCH_AGE_US)
		send_batch(batch);
}

/* Minimum interval between two samples, in microseconds. */
static __always_inline __u64 sampling_interval(struct tcp_sock *tp)
{
	/* srtt_us is in eighths of a microsecond. */
	__u64 interval = (tp->srtt_us >> 3) / SAMPLES_PER_RTT;
	const struct mpw_sampling_rate *rate = current_sampling_rate();

	if (interval < MIN_INTERVAL_US)
		interval = MIN_INTERVAL_US;
	return rate ? interval * rate->interval_factor : interval;
}

/* Whether the newest RTT measures data that was sent late enough after the previous sample. False before the first sample. */
static __always_inline bool is_sample_due(struct subflow_state *state, struct tcp_sock *tp)
{
	return state->sample_due_us &&
	       tp->delivered_mstamp - tp->rack.rtt_us > state->sample_due_us;
}

/* The tracepoint fires before the kernel processes the segment, so state and time belong to the previous segment, as in count_rtt(). */
static __always_inline void sample_delay(struct subflow_state *state, struct sock *sk,
					 struct tcp_sock *tp, struct mptcp_sock *msk)
{
	__u64 at = tp->delivered_mstamp;
	__u32 rtt_us = tp->rack.rtt_us;
	/* Intervals are between times of sending, because acknowledgements that arrive together measured the queue at different times. */
	__u64 sent = at - rtt_us;
	struct mpw_sample_batch *batch;

	if (sent <= state->sample_due_us || !rtt_us)
		return;
	if (!has_several_subflows(msk)) {
		state->sample_due_us = sent + RECHECK_US;
		return;
	}
	state->sample_due_us = sent + sampling_interval(tp) - 1;
	batch = bpf_sk_storage_get(&batches, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!batch)
		return;
	/* The kernel reuses the socket of a first subflow. Old samples belong to its previous generation. */
	if (batch->generation != state->observed.generation)
		batch->count = 0;
	batch->kind = MPW_RECORD_SAMPLE_BATCH;
	batch->cookie = state->observed.cookie;
	batch->generation = state->observed.generation;
	append_sample(batch, tp, at);
}

#endif
