// SPDX-License-Identifier: GPL-2.0-only
/*
 * The packet path: what the kernel does not keep. Every segment received on an established subflow may bring an RTT sample and
 * shows whether the connection makes progress; every retransmission has a cause. Bytes are not counted here: the kernel does.
 */
#include "compat.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "payload.bpf.h"
#include "sample.bpf.h"
#include "stall.bpf.h"

static __always_inline __u32 log2_u32(__u32 v)
{
	__u32 r = 0;

	if (v >> 16) {
		v >>= 16;
		r += 16;
	}
	if (v >> 8) {
		v >>= 8;
		r += 8;
	}
	if (v >> 4) {
		v >>= 4;
		r += 4;
	}
	if (v >> 2) {
		v >>= 2;
		r += 2;
	}
	return r + (v >> 1);
}

/* The bucket layout that model/src/histogram.rs reads. */
static __always_inline __u32 mpw_rtt_bucket(__u32 rtt_us)
{
	__u32 octave;

	if (rtt_us < 16)
		rtt_us = 16;
	if (rtt_us > (1 << 24) - 1)
		rtt_us = (1 << 24) - 1;
	octave = log2_u32(rtt_us);
	return (octave - 4) * 8 + (rtt_us >> (octave - 3) & 7);
}

/*
 * rack.rtt_us is the raw RTT of the segment delivered last, at delivered_mstamp. The tracepoint fires before the ACK at hand
 * is processed, so this is the sample of the ACK before it; since it carries its own time, the lag does not matter.
 */
static __always_inline void sample_rtt(struct subflow_state *state, struct tcp_sock *tp)
{
	__u64 delivered_at = tp->delivered_mstamp;
	__u32 rtt_us = tp->rack.rtt_us;
	__u32 bucket;

	if (delivered_at == state->rtt_sampled_at || !rtt_us)
		return;
	state->rtt_sampled_at = delivered_at;
	bucket = mpw_rtt_bucket(rtt_us);
	if (bucket < MPW_RTT_BUCKETS)
		state->rtt_histogram[bucket]++;
}

/* [ICPE19]: a second path helps from the moment at which it has carried a tenth of the connection's bytes. */
static __always_inline void watch_effective(struct subflow_state *state, struct tcp_sock *tp,
					    struct mptcp_sock *msk, __u64 now)
{
	__u64 mine = tp->bytes_acked + tp->bytes_received;
	__u64 all;

	if (!mine)
		return;
	all = payload_so_far(&state->handshake, msk);
	if (!all || mine * 10 < all)
		return;
	state->effective_ns = now;
	state->effective_bytes = all;
}

/* Asked for once a subflow: its context never changes hands. The address stays in the kernel. */
static __always_inline struct mptcp_sock *connection_of(struct subflow_state *state,
							struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow = subflow_of(tp);

	if (!state->msk && subflow)
		state->msk = (__u64)msk_of(subflow);
	return subflow ? (struct mptcp_sock *)state->msk : NULL;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	bool wanted_effective, sending;
	struct mptcp_sock *msk;
	struct tcp_sock *tp;
	__u64 now;

	if (!state) {
		claim_for_others();
		return 0;
	}
	claim_for_segment(state);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	sample_rtt(state, tp);
	/* Where nothing is in flight nothing can stall, and no acknowledgement can show progress. */
	sending = tp->packets_out;
	wanted_effective = !state->effective_ns;
	if (!(state->flags & MPW_SF_MPTCP) || (!sending && !wanted_effective))
		return 0;
	msk = connection_of(state, tp);
	if (!msk)
		return 0;
	now = bpf_ktime_get_boot_ns();
	if (sending) {
		watch_progress(state, msk);
		state->heard_ns = now;
		if (settings.samples)
			take_point(state, sk, tp, msk);
	}
	if (wanted_effective)
		watch_effective(state, tp, msk, now);
	return 0;
}

/*
 * Why: a tail loss probe is sent by its own timer outside of recovery; what is sent in Loss follows a timeout; the rest is
 * recovery triggered by acknowledgements. Segments are counted by what the kernel added since the last event, because the
 * tracepoint fires once a packet, which may hold several.
 */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, struct sock *sk)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	struct tcp_sock *tp;
	__u32 segments;
	__u8 ca_state;

	if (!state)
		return 0;
	claim_for_segment(state);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	segments = tp->total_retrans - state->retrans_seen;
	state->retrans_seen = tp->total_retrans;
	ca_state = READ_BITS(&tp->inet_conn, icsk_ca_state);
	if (ca_state == TCP_CA_Loss)
		state->retrans_timeout += segments;
	else if (ca_state != TCP_CA_Recovery && tp->inet_conn.icsk_pending == ICSK_TIME_LOSS_PROBE)
		state->retrans_probe += segments;
	else
		state->retrans_fast += segments;
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(on_retransmit_synack)
{
	count(MPW_COUNT_SYNACK_RETRANSMITS, 1);
	return 0;
}
