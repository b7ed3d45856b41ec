// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of connections and subflows: opened, established, joined, ended. Every end leaves a record of final counters,
 * from the subflow's change to CLOSE (before anything can zero them), sent when its socket is destroyed or reused.
 */
#include "ending.bpf.h"
#include "record.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct mpw_settings settings SEC(".rodata.settings") = {};

static const struct subflow_state new_subflow;

static __always_inline void note_owner(struct mpw_owner *owner)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	owner->pid = bpf_get_current_pid_tgid() >> 32;
	/* The process's name, not that of the thread that happened to make the call. */
	BPF_CORE_READ_INTO(&owner->comm, task, group_leader, comm);
}

static __always_inline void send_subflow(struct subflow_state *state, struct sock *sk)
{
	struct mpw_subflow *record;

	if (state->reported || !state->closed_ns)
		return;
	claim_for_subflow(state);
	state->reported = 1;
	record = reserve(sizeof(*record));
	if (!record) {
		count_both(MPW_COUNT_LOST_BYTES_SENT,
			   state->final.bytes_sent - state->final.bytes_retrans,
			   MPW_COUNT_LOST_BYTES_RECEIVED, state->final.bytes_received);
	} else {
		begin_subflow(record, state, sk);
		complete_subflow(record, state, sk);
		record->flags |= MPW_SF_FINAL;
		bpf_ringbuf_submit(record, 0);
	}
	give_back_slot(&state->cost);
}

static __always_inline struct subflow_state *track_subflow(struct sock *sk, __u64 now)
{
	struct subflow_state *state =
		bpf_sk_storage_get(&subflows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!state) {
		count(MPW_COUNT_STORAGE_FAILED, 1);
		return NULL;
	}
	if (!state->cookie)
		state->cookie = bpf_get_socket_cookie(sk);
	state->first_seen_ns = now;
	state->flags |= MPW_SF_SEEN_OPEN;
	return state;
}

/* A socket that was closed and is connected anew: the old generation's finals go out, then nothing of it may remain. */
static __always_inline void begin_generation(struct subflow_state *state, struct sock *sk)
{
	__u64 cookie = state->cookie;
	__u32 generation = state->generation;

	send_subflow(state, sk);
	bpf_probe_read_kernel(state, sizeof(*state), &new_subflow);
	state->cookie = cookie;
	state->generation = generation + 1;
}

static __always_inline void on_syn_sent(struct sock *sk, struct tcp_sock *tp, __u64 now)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	struct mptcp_subflow_context *subflow;

	if (state && state->first_seen_ns)
		begin_generation(state, sk);
	state = track_subflow(sk, now);
	if (!state)
		return;
	state->created_ns = now;
	if (!tp->is_mptcp) {
		note_owner(&state->owner);
		return;
	}
	state->flags |= MPW_SF_MPTCP;
	subflow = subflow_of(tp);
	learn_worker(msk_of(subflow));
	if (READ_BITS(subflow, request_mptcp))
		state->flags |= MPW_SF_ASKED_MPTCP;
}

static __always_inline void on_established(struct sock *sk, struct tcp_sock *tp, int old, __u64 now)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	struct mptcp_sock *msk;

	if (old == TCP_SYN_RECV && !state) {
		state = track_subflow(sk, now);
		if (!state)
			return;
		if (tp->is_mptcp)
			state->flags |= MPW_SF_MPTCP | MPW_SF_ASKED_MPTCP;
		state->flags |= MPW_SF_PASSIVE;
		/* The first RTT sample of an accepted socket is that of its SYN-ACK. */
		state->handshake_us = tp->srtt_us >> 3;
		state->created_ns = now - state->handshake_us * 1000ull;
	} else if (!state) {
		state = adopt_subflow(tp);
	}
	if (!state)
		return;
	state->established_ns = now;
	/* A backup may rest from here on until it is needed. */
	state->heard_ns = now;
	state->progress_ns = now;
	if (old == TCP_SYN_SENT && state->created_ns)
		state->handshake_us = (now - state->created_ns) / 1000;
	msk = state->flags & MPW_SF_MPTCP ? msk_of(subflow_of(tp)) : NULL;
	if (msk) {
		learn_handshake(&state->handshake, msk);
		state->joined_bytes = payload_so_far(&state->handshake, msk);
	}
	look_up(state, tp);
}

/* It has carried something, so it is no listener and no failed handshake. */
static __always_inline bool has_lived(struct tcp_sock *tp)
{
	return tp->bytes_acked || tp->bytes_received;
}

static __noinline int close_subflow(struct subflow_state *state, struct sock *sk,
				    struct tcp_sock *tp)
{
	if (state->closed_ns)
		return 0;
	if (!state->established_ns && state->flags & MPW_SF_SEEN_OPEN)
		state->flags |= MPW_SF_NEVER_ESTABLISHED;
	if (!state->error)
		state->error = sk->sk_err;
	note_end(state, tp, TCP_CLOSE);
	look_up(state, tp);
	note_removed_address(state, tp);
	note_fast_close(state, tp);
	fill_tcp(&state->final, tp);
	state->closed_ns = bpf_ktime_get_boot_ns();
	return 0;
}

static __always_inline void on_close(struct sock *sk, struct tcp_sock *tp)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);

	if (!state && has_lived(tp) && (tp->is_mptcp || settings.trace_tcp))
		state = adopt_subflow(tp);
	if (state)
		close_subflow(state, sk, tp);
}

static __always_inline void on_subflow_state(struct sock *sk, int old, int new)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	bool wanted;
	__u64 now;

	if (!tp || (state && state->handled == new))
		return;
	/* What opens; what is tracked already stays so even if it leaves its connection on the way. */
	wanted = tp->is_mptcp || settings.trace_tcp;
	now = bpf_ktime_get_boot_ns();
	switch (new) {
	case TCP_SYN_SENT:
		if (wanted)
			on_syn_sent(sk, tp, now);
		break;
	case TCP_ESTABLISHED:
		if (wanted)
			on_established(sk, tp, old, now);
		break;
	case TCP_FIN_WAIT1:
	case TCP_CLOSE_WAIT:
		if (state)
			note_end(state, tp, new);
		break;
	case TCP_CLOSE:
		on_close(sk, tp);
		break;
	}
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (!state)
		return;
	state->handled = new;
	claim_for_subflow(state);
}

static __always_inline struct connection_state *track_connection(struct sock *sk, __u64 now,
								 bool seen_open)
{
	struct connection_state *state =
		bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!state) {
		count(MPW_COUNT_STORAGE_FAILED, 1);
		return NULL;
	}
	if (!state->cookie)
		state->cookie = bpf_get_socket_cookie(sk);
	if (!state->first_seen_ns)
		state->first_seen_ns = now;
	if (seen_open) {
		state->opened_ns = now;
		state->closed_ns = 0;
		state->fin_queued = 0;
		__builtin_memset(&state->handshake, 0, sizeof(state->handshake));
	}
	return state;
}

static __always_inline void send_connection(struct connection_state *state, struct sock *sk)
{
	struct mpw_connection *record = reserve(sizeof(*record));

	if (record) {
		fill_connection(record, state, sk);
		record->msk.flags |= MPW_MSK_FINAL;
		record->msk.state = TCP_CLOSE;
		bpf_ringbuf_submit(record, 0);
	}
	give_back_slot(&state->cost);
}

static __always_inline void on_connection_state(struct sock *sk, int old, int new)
{
	struct mptcp_sock *msk = (struct mptcp_sock *)sk;
	__u64 now = bpf_ktime_get_boot_ns();
	struct connection_state *state;

	learn_worker(msk);
	state = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (state && state->handled == new)
		return;
	if (new == TCP_SYN_SENT) {
		state = track_connection(sk, now, true);
		if (state)
			note_owner(&state->owner);
	} else if (new == TCP_ESTABLISHED) {
		/* Without a storage yet, this is an accepted connection: its owner shows at the first read or write. */
		if (!state)
			state = track_connection(sk, now, old != TCP_SYN_SENT);
		/* A look at the socket of an earlier connection may have found the old keys meanwhile. */
		if (state && old == TCP_SYN_SENT)
			__builtin_memset(&state->handshake, 0, sizeof(state->handshake));
		if (state)
			learn_handshake(&state->handshake, msk);
	} else if (new == TCP_CLOSE) {
		/* Its opening was missed; a listener, which is closed more than once, has no token. */
		if (!state && READ(msk, token))
			state = track_connection(sk, now, false);
		if (!state || state->closed_ns)
			return;
		claim_for_connection(state);
		state->closed_ns = now;
		send_connection(state, sk);
	} else if (state) {
		state->fin_queued |= has_queued_fin(new);
	}
	if (!state)
		return;
	state->handled = new;
	claim_for_connection(state);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(take_in_state, struct sock *sk, int old, int new)
{
	__u16 protocol = sk->sk_protocol;

	if (protocol == IPPROTO_TCP)
		on_subflow_state(sk, old, new);
	else if (protocol == IPPROTO_MPTCP)
		on_connection_state(sk, old, new);
	return 0;
}

/* Holds take_in_state; user space puts it there. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} state_changes SEC(".maps");

/*
 * The kernel does not run a program on a CPU that it has just interrupted in the same program: while a process changes a state, a
 * change in the softirq that interrupts it would go unseen. So two programs hang on the tracepoint. The second one sees it, and finds
 * everything else handled. What they do is a program of its own, which is verified once.
 */
SEC("tp_btf/inet_sock_set_state")
int on_set_state(void *ctx)
{
	bpf_tail_call(ctx, &state_changes, 0);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int on_set_state_meanwhile(void *ctx)
{
	bpf_tail_call(ctx, &state_changes, 0);
	return 0;
}

/*
 * The last moment of a TCP socket at which everything is still readable: before its ULP is cleaned up. Its change to CLOSE was seen
 * before, unless that event was missed; then this is the place to make up for it.
 */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(on_destroy, struct sock *sk)
{
	struct subflow_state *state;
	struct tcp_sock *tp;

	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (!state || !state->closed_ns)
		on_close(sk, tp);
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (state)
		send_subflow(state, sk);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(on_reset_received, struct sock *sk)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);

	if (state && !state->closed_ns)
		state->flags |= MPW_SF_RST_RECEIVED;
	return 0;
}

/* Of a reset that answers a stray segment there is no socket. A reset after CLOSE belongs to that close. */
SEC("tp_btf/tcp_send_reset")
int BPF_PROG(on_reset_sent, struct sock *sk)
{
	struct subflow_state *state;

	if (!sk)
		return 0;
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (state)
		state->flags |= MPW_SF_RST_SENT;
	return 0;
}

/*
 * The tracepoint fires after the socket's own report, in which MPTCP may have taken the error already (it does so whenever
 * nobody holds the connection's lock). Of a subflow that was retransmitting in vain it is known what it was: what the network
 * last said, or else a timeout (tcp_write_err() in net/ipv4/tcp_timer.c).
 */
static __always_inline __u32 reported_error(struct subflow_state *state, struct sock *sk)
{
	struct tcp_sock *tp;

	if (sk->sk_err || state->flags & (MPW_SF_RST_RECEIVED | MPW_SF_RST_SENT))
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
	if (state && !state->error)
		state->error = reported_error(state, sk);
	return 0;
}
