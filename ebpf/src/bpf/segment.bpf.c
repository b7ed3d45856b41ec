// SPDX-License-Identifier: GPL-2.0-only
/* The packet path: RTT samples, progress of the connection, causes of retransmissions. The kernel itself counts bytes. */
#include "compat.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "payload.bpf.h"
#include "sample.bpf.h"
#include "stall.bpf.h"
#include "work.bpf.h"

/* Byte of the TCP header that has the header's length in 32-bit words in its upper half. */
#define TCP_DATA_OFFSET 12

static __always_inline __u32 log2_u32(__u32 v)
{
	__u32 r = 0;

#pragma clang loop unroll(full)
	for (__u32 step = 16; step; step >>= 1)
		if (v >> step) {
			v >>= step;
			r += step;
		}
	return r;
}

/* Same buckets as RttHistogram (model/src/kernel/histogram.rs). */
static __always_inline __u32 rtt_bucket(__u32 rtt_us)
{
	__u32 octave, sub_bucket;

	if (rtt_us < 1 << MPW_RTT_LOWEST_OCTAVE)
		rtt_us = 1 << MPW_RTT_LOWEST_OCTAVE;
	if (rtt_us > MPW_RTT_MAX_US)
		rtt_us = MPW_RTT_MAX_US;
	octave = log2_u32(rtt_us);
	sub_bucket = rtt_us >> (octave - MPW_RTT_SUB_BUCKET_BITS);
	sub_bucket &= (1 << MPW_RTT_SUB_BUCKET_BITS) - 1;
	return ((octave - MPW_RTT_LOWEST_OCTAVE) << MPW_RTT_SUB_BUCKET_BITS) + sub_bucket;
}

/* The tracepoint fires before the kernel processes the ACK, so this is the raw RTT of the previous ACK, measured at delivered_mstamp. */
static __always_inline void count_rtt(struct subflow_state *state, struct tcp_sock *tp)
{
	__u64 delivered_at = tp->delivered_mstamp;
	__u32 rtt_us = tp->rack.rtt_us;
	__u32 bucket;

	if (delivered_at == state->rtt_sampled_at || !rtt_us)
		return;
	state->rtt_sampled_at = delivered_at;
	bucket = rtt_bucket(rtt_us);
	if (bucket < MPW_RTT_BUCKETS)
		state->rtt_histogram[bucket]++;
}

/*
 * [ICPE19]: a second path is effective once it has carried a tenth of the connection's bytes. Both ends count arrived bytes, because the
 * receiver cannot count bytes in flight.
 */
static __always_inline void update_effective(struct subflow_state *state, struct tcp_sock *tp,
					     struct mptcp_sock *msk, __u64 now)
{
	__u64 mine = tp->bytes_acked + tp->bytes_received;
	__u64 all;

	if (!mine)
		return;
	all = payload_arrived(&state->handshake, msk);
	if (!all || mine * 10 < all)
		return;
	state->observed.effective_ns = now;
	state->observed.effective_bytes = all;
}

/* Reads the pointer once per subflow, because a subflow's connection never changes. The address stays in the kernel. */
static __always_inline struct mptcp_sock *connection_of(struct subflow_state *state,
							struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow = subflow_of(tp);

	if (!state->msk && subflow)
		state->msk = (__u64)msk_of(subflow);
	return subflow ? (struct mptcp_sock *)state->msk : NULL;
}

/*
 * Whether to sample this segment. A sample costs more than the rest of the program, so these are sampled: every segment of a slow subflow,
 * thousands per second of a fast subflow, every segment of an MPTCP subflow until it is effective, and segments with a due RTT sample.
 */
static __always_inline bool is_sampled(struct subflow_state *state, struct tcp_sock *tp)
{
	const struct mpw_sampling_rate *rate = current_sampling_rate();
	__u32 tick = bpf_jiffies64();
	__u32 earlier;

	if (!rate)
		return true;
	if (state->tick != tick) {
		state->tick = tick;
		state->in_tick = 0;
	}
	earlier = state->in_tick++;
	if (earlier < rate->segments_per_tick || !(earlier & (rate->every_nth - 1)))
		return true;
	if (!state->observed.effective_ns && state->observed.flags & MPW_SF_MPTCP)
		return true;
	return settings.samples && is_sample_due(state, tp);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk)
{
	struct subflow_state *state = NULL;
	bool wanted_effective, sending, observes;
	struct mptcp_sock *msk;
	struct tcp_sock *tp;
	__u64 now;

	count(MPW_COUNT_SEGMENTS, 1);
	/* Most plain TCP sockets have no storage at all. Testing the pointer costs a fraction of the helper call. */
	if (sk->sk_bpf_storage)
		state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (!state) {
		charge_untraced();
		return 0;
	}
	charge_segment(state);
	count_packet(state);
	/* A cast costs no CPU time, the helper costs a call. The tracepoint fires for TCP sockets only. */
	tp = settings.has_cast ? bpf_core_cast(sk, struct tcp_sock) : bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_sampled(state, tp))
		return 0;
	count_payload(state, tp);
	count_rtt(state, tp);
	/*
	 * Without data in flight there is neither stall nor progress on this subflow, except that a closed window must be recorded, because waiting
	 * for it is not a stall. But a segment may acknowledge data of another subflow, which the first segment of a timer tick checks.
	 */
	sending = tp->packets_out || tp->snd_wnd < MPW_MIN_WINDOW;
	observes = sending || state->in_tick == 1 || state->observed.flags & MPW_SF_UNACKED;
	wanted_effective = !state->observed.effective_ns;
	if (!(state->observed.flags & MPW_SF_MPTCP) || (!observes && !wanted_effective))
		return 0;
	msk = connection_of(state, tp);
	if (!msk)
		return 0;
	now = bpf_ktime_get_boot_ns();
	if (observes) {
		update_progress(state, tp, msk, now);
		state->received_ns = now;
		if (sending && settings.samples)
			sample_delay(state, sk, tp, msk);
	}
	if (wanted_effective)
		update_effective(state, tp, msk, now);
	return 0;
}

/*
 * Causes: in state Loss a timeout; outside of recovery, with the probe timer pending, a tail loss probe; otherwise recovery. The tracepoint
 * fires once per packet, which may hold several segments. The increase of the kernel's total is their number.
 */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	struct tcp_sock *tp;
	__u32 segments;
	__u8 ca_state;

	if (!state)
		return 0;
	charge_segment(state);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	if (!settings.reports_failed_retransmits || !(int)ctx[2])
		state->observed.bytes_resent += skb->len;
	segments = tp->total_retrans - state->last_total_retrans;
	state->last_total_retrans = tp->total_retrans;
	ca_state = READ_BITS(&tp->inet_conn, icsk_ca_state);
	if (ca_state == TCP_CA_Loss)
		state->observed.retrans_timeout += segments;
	else if (ca_state != TCP_CA_Recovery && tp->inet_conn.icsk_pending == ICSK_TIME_LOSS_PROBE)
		state->observed.retrans_probe += segments;
	else
		state->observed.retrans_fast += segments;
	return 0;
}

/*
 * Counts payload that a queue of this host drops, so that it is never on the wire. If a queue splits a large packet and drops some of its
 * segments, TCP counts all segments as sent, and retransmits the dropped ones.
 */
SEC("tp_btf/kfree_skb")
int BPF_PROG(on_drop, struct sk_buff *skb, void *location, int reason)
{
	struct subflow_state *state;
	struct sock *sk = skb->sk;
	__u64 transport;
	__u32 headers;
	__u8 words;

	if (!sk || reason != bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_QDISC_DROP))
		return 0;
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (!state)
		return 0;
	/* Read by helper calls, because the verifier allows arithmetic on their results. */
	transport = (__u64)BPF_CORE_READ(skb, head) + skb->transport_header;
	if (bpf_probe_read_kernel(&words, 1, (void *)(transport + TCP_DATA_OFFSET)))
		return 0;
	headers = transport - (__u64)BPF_CORE_READ(skb, data) + (words >> 4) * 4;
	if (skb->len > headers)
		state->observed.bytes_dropped += skb->len - headers;
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(on_retransmit_synack)
{
	count(MPW_COUNT_SYNACK_RETRANSMITS, 1);
	return 0;
}
