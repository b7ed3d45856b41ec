// SPDX-License-Identifier: GPL-2.0-only
/* Resets and errors of subflows, from which user space derives why a subflow ended (close.rs of the tracker). */
#include "compat.bpf.h"
#include "maps.bpf.h"

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(on_reset_received, struct sock *sk)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);

	if (state && !state->observed.closed_ns)
		state->observed.flags |= MPW_SF_RST_RECEIVED;
	return 0;
}

/* A reset that answers a segment without a connection has no socket. A reset after CLOSE belongs to that close, so closed_ns is not checked. */
SEC("tp_btf/tcp_send_reset")
int BPF_PROG(on_reset_sent, struct sock *sk)
{
	struct subflow_state *state;

	if (!sk)
		return 0;
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (state)
		state->observed.flags |= MPW_SF_RST_SENT;
	return 0;
}

/*
 * The tracepoint fires after sk_error_report(), in which MPTCP clears the error unless another task holds the connection's lock. If the
 * subflow timed out, the cleared error was the last error that the network reported or, without one, ETIMEDOUT (tcp_write_err()).
 */
static __always_inline __u32 reported_error(struct subflow_state *state, struct sock *sk)
{
	struct tcp_sock *tp;

	if (sk->sk_err || state->observed.flags & (MPW_SF_RST_RECEIVED | MPW_SF_RST_SENT))
		return sk->sk_err;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !tp->inet_conn.icsk_backoff)
		return 0;
	return sk->sk_err_soft ?: ETIMEDOUT;
}

SEC("tp_btf/inet_sk_error_report")
int BPF_PROG(on_error_report, struct sock *sk)
{
	struct subflow_state *state;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (state && !state->observed.error)
		state->observed.error = reported_error(state, sk);
	return 0;
}
