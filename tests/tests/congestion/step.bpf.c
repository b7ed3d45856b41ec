// SPDX-License-Identifier: GPL-2.0-only
/*
 * One step of the arithmetic of mptcpd (arithmetic.bpf.h has the units) on numbers from user space, for the test that compares the kernel's
 * results with the reference. mpwatch does not contain this object.
 */
#include "../../../ebpf/src/congestion/arithmetic.bpf.h"

/* The same fields as in `Step` in arithmetic.rs. */
struct step {
	/* In: rate of the connection's other subflows. */
	__u64 others_rate;
	/* In: window in segments, RTT, lowest RTT of the connection, segments that the ACK acknowledges. */
	__u64 cwnd, rtt_us, min_rtt_us, acked;
	/* In and out: fraction of a segment by which the window is still to grow. */
	__u64 credit;
	/* Out: rate of this subflow, increase per acknowledged segment, segments by which the window grows. */
	__u64 rate, increase, growth;
};

__attribute__((section("syscall"), used)) int run_step(struct step *step)
{
	__u64 credit = step->credit;

	step->rate = path_rate(step->cwnd, step->rtt_us);
	step->increase = increase_per_segment(step->cwnd, step->rtt_us,
					      step->others_rate + step->rate, step->min_rtt_us);
	step->growth = add_increase(step->cwnd, step->acked, step->increase, &credit);
	step->credit = credit;
	return 0;
}
