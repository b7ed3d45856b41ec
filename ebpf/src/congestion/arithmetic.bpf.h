/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The increase of mptcpd, the congestion control of [MPTCP-D] (docs/control.md), in integers. tests/src/mptcpd/mod.rs has the same functions
 * in Rust; the test root_congestion compares the two.
 *
 * [MPTCP-D]: per acknowledged segment on path r, w_r += psi_r * (w_r / RTT_r^2) / (sum_k w_k / RTT_k)^2, psi_r = min_k RTT_k / RTT_r.
 * With the share q_r = (w_r / RTT_r) / (sum_k w_k / RTT_k) of path r in the rate of its connection this is psi_r * q_r^2 / w_r. Both psi_r
 * and q_r are at most 1, so that the increase is at most Reno's 1 / w_r.
 */
#ifndef MPWATCH_ARITHMETIC_BPF_H
#define MPWATCH_ARITHMETIC_BPF_H

#include <linux/types.h>

/* Larger values are clamped to these: a window of 1.5 GB with segments of 1460 bytes, an RTT of 16.7 s. */
#define MAX_CWND   (1U << 20)
#define MAX_RTT_US ((1U << 24) - 1)

/* Rates are in 2^-36 segments per microsecond: at most 2^56, so that 16 of them can be added. */
#define RATE_SHIFT 36
/* Shares and RTT ratios are in 2^-20. */
#define RATIO_SHIFT 20
#define ONE	    (1ULL << RATIO_SHIFT)
/* Increases are in 2^-40 segments. */
#define INCREASE_SHIFT 40

static __always_inline __u64 clamp_rtt(__u32 rtt_us)
{
	if (rtt_us > MAX_RTT_US)
		return MAX_RTT_US;
	return rtt_us ? rtt_us : 1;
}

/* w / RTT. */
static __always_inline __u64 path_rate(__u32 cwnd, __u32 rtt_us)
{
	__u64 segments = cwnd > MAX_CWND ? MAX_CWND : cwnd;

	return (segments << RATE_SHIFT) / clamp_rtt(rtt_us);
}

/* part / whole, at most ONE. Shifts `part` up or, if `part` could overflow, `whole` down. */
static __always_inline __u64 ratio(__u64 part, __u64 whole)
{
	__u64 quotient;

	if (part >= whole)
		return ONE;
	if (whole >> (63 - RATIO_SHIFT))
		quotient = part / (whole >> RATIO_SHIFT);
	else
		quotient = (part << RATIO_SHIFT) / whole;
	return quotient > ONE ? ONE : quotient;
}

/* Increase per acknowledged segment. total_rate includes the path's own rate, min_rtt_us its own RTT. */
static __always_inline __u64 increase_per_segment(__u32 cwnd, __u32 rtt_us, __u64 total_rate,
						  __u32 min_rtt_us)
{
	__u64 share = ratio(path_rate(cwnd, rtt_us), total_rate);
	__u64 psi = ratio(clamp_rtt(min_rtt_us), clamp_rtt(rtt_us));
	/* 3 * RATIO_SHIFT bits. */
	__u64 product = share * share * psi;

	return product / (cwnd ? cwnd : 1) >> (3 * RATIO_SHIFT - INCREASE_SHIFT);
}

/*
 * Adds the increase for an ACK of `acked` segments to *credit. Returns the number of whole segments by which the window grows: at most one,
 * because `acked` counts as one window at most, and the increase per segment is at most 1 / cwnd.
 */
static __always_inline __u32 add_increase(__u32 cwnd, __u32 acked, __u64 increase, __u64 *credit)
{
	__u64 segments = acked > cwnd ? cwnd : acked;
	__u64 sum = *credit + segments * increase;

	*credit = sum & ((1ULL << INCREASE_SHIFT) - 1);
	return sum >> INCREASE_SHIFT;
}

#endif
