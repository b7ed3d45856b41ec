// SPDX-License-Identifier: GPL-2.0-only
/*
 * mptcpd, the congestion control of [MPTCP-D], as a struct_ops, for sockets that select it: the subflows of a connection share one increase
 * (arithmetic.bpf.h), and each halves its own window on a loss. Slow start, recovery and plain TCP connections use the kernel's Reno.
 */
#include "../bpf/kernel.bpf.h"
#include "arithmetic.bpf.h"
#include "group.bpf.h"

/* include/net/tcp.h: like Reno, any user and any namespace may select mptcpd, because it never grows a window faster than Reno. */
#define TCP_CONG_NON_RESTRICTED 1

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;

char LICENSE[] SEC("license") = "GPL";

static __always_inline struct subflow_control *control_of(struct sock *sk)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	return (struct subflow_control *)icsk->icsk_ca_priv;
}

/* Whether the window limits the sender, so that an ACK may raise it: tcp_is_cwnd_limited() of include/net/tcp.h. */
static __always_inline bool is_window_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Kernels without MPTCP have no field is_mptcp. */
static __always_inline bool is_subflow(struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp;
}

/* Finds the connection of a subflow. During the handshake a subflow may not have a connection yet. */
static __always_inline bool find_connection(struct tcp_sock *tp, struct subflow_control *own)
{
	struct mptcp_subflow_context *subflow = tp->inet_conn.icsk_ulp_data;
	struct mptcp_sock *msk;

	if (own->key.token)
		return true;
	if (!subflow)
		return false;
	msk = (struct mptcp_sock *)BPF_CORE_READ(subflow, conn);
	if (!msk)
		return false;
	own->key.netns_cookie = tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net->net_cookie;
	own->key.token = BPF_CORE_READ(msk, token);
	return own->key.token;
}

/* Publishes this subflow's rate and RTT, and returns the increase per acknowledged segment. */
static __always_inline __u64 coupled_increase(struct tcp_sock *tp, struct subflow_control *own)
{
	/* srtt_us has three fraction bits. Before the first RTT sample it is 0. */
	__u32 rtt_us = tp->srtt_us >> 3, cwnd = tp->snd_cwnd, place;
	struct others others = {.min_rtt_us = rtt_us};
	struct group_key key = own->key;
	__u64 now = bpf_ktime_get_ns();
	struct group *group = find_or_create_group(&key);

	if (group) {
		place = publish(group, own, cwnd, rtt_us, now);
		others = sum_others(group, place, rtt_us, now);
	}
	return increase_per_segment(cwnd, rtt_us, others.rate + path_rate(cwnd, rtt_us),
				    others.min_rtt_us);
}

SEC("struct_ops")
void BPF_PROG(mptcpd_init, struct sock *sk)
{
	/* An accepted socket has a copy of its listener's state. */
	*control_of(sk) = (struct subflow_control){};
}

SEC("struct_ops")
void BPF_PROG(mptcpd_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct subflow_control *own = control_of(sk);
	__u64 increase, credit;
	__u32 cwnd;

	if (!is_subflow(tp) || !find_connection(tp, own)) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	increase = coupled_increase(tp, own);
	if (!is_window_limited(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	credit = own->credit;
	cwnd = tp->snd_cwnd;
	cwnd += add_increase(cwnd, acked, increase, &credit);
	own->credit = credit;
	tp->snd_cwnd = cwnd < tp->snd_cwnd_clamp ? cwnd : tp->snd_cwnd_clamp;
}

/* Half of the window, at least 2 segments. The kernel also calls this after idle time or a change of the path's MTU. */
SEC("struct_ops")
__u32 BPF_PROG(mptcpd_ssthresh, struct sock *sk)
{
	control_of(sk)->credit = 0;
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(mptcpd_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(mptcpd_release, struct sock *sk)
{
	struct subflow_control own = {};
	struct subflow_control *control = control_of(sk);

	own.id = control->id;
	own.key = control->key;
	own.place = control->place;
	if (own.id)
		leave(&own, bpf_ktime_get_ns());
	control->id = 0;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops mptcpd = {
	.init = (void *)mptcpd_init,
	.cong_avoid = (void *)mptcpd_cong_avoid,
	.ssthresh = (void *)mptcpd_ssthresh,
	.undo_cwnd = (void *)mptcpd_undo_cwnd,
	.release = (void *)mptcpd_release,
	.name = "mptcpd",
	.flags = TCP_CONG_NON_RESTRICTED,
};
