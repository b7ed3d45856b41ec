// SPDX-License-Identifier: GPL-2.0-only
/* Opening, joining and closing. Final counters are read at CLOSE, before the kernel can zero them, and sent when the socket is destroyed. */
#include "ending.bpf.h"
#include "lost.bpf.h"
#include "record.bpf.h"
#include "work.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct mpw_settings settings SEC(".rodata.settings") = {};

static const struct subflow_state new_subflow;

/*
 * A socket without a known owner, such as an accepted socket, belongs to the process that calls close() or shutdown() on it. Such a call holds
 * the socket's lock. Other changes to the states below happen in softirqs, without the lock, or in kernel threads.
 */
static __always_inline void note_closing_owner(struct mpw_owner *owner, struct sock *sk, int new)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (owner->pid || !sk->sk_lock.owned || READ(task, flags) & PF_KTHREAD)
		return;
	if (new == TCP_FIN_WAIT1 || new == TCP_LAST_ACK ||
	    (new == TCP_CLOSE && sk->sk_shutdown == SHUTDOWN_MASK))
		set_owner(owner, task);
}

static __always_inline void send_subflow(struct subflow_state *state, struct sock *sk)
{
	struct mpw_subflow *record;

	if (state->final_sent || !state->observed.closed_ns)
		return;
	charge_subflow(state);
	state->final_sent = 1;
	record = reserve(sizeof(*record));
	if (!record) {
		count_lost_subflow(state, sk);
	} else {
		begin_subflow(record, state, sk);
		complete_subflow(record, state, sk);
		record->observed.flags |= MPW_SF_FINAL;
		bpf_ringbuf_submit(record, 0);
	}
	free_slot(&state->cost_slot);
}

static __always_inline struct subflow_state *track_subflow(struct sock *sk, __u64 now)
{
	struct subflow_state *state = create_storage(&subflows, sk);

	if (!state)
		return NULL;
	if (!state->observed.cookie)
		state->observed.cookie = bpf_get_socket_cookie(sk);
	state->observed.first_seen_ns = now;
	state->observed.flags |= MPW_SF_SEEN_OPEN;
	return state;
}

/* Called when a closed socket connects again. Sends the final record of the old generation, then clears the state. */
static __always_inline void begin_generation(struct subflow_state *state, struct sock *sk)
{
	__u64 cookie = state->observed.cookie;
	__u32 generation = state->observed.generation;

	send_subflow(state, sk);
	bpf_probe_read_kernel(state, sizeof(*state), &new_subflow);
	state->observed.cookie = cookie;
	state->observed.generation = generation + 1;
}

static __always_inline void on_syn_sent(struct sock *sk, struct tcp_sock *tp, __u64 now)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	struct mptcp_subflow_context *subflow;

	if (state && state->observed.first_seen_ns)
		begin_generation(state, sk);
	state = track_subflow(sk, now);
	if (!state)
		return;
	state->observed.created_ns = now;
	if (!tp->is_mptcp) {
		set_current_owner(&state->observed.owner);
		return;
	}
	state->observed.flags |= MPW_SF_MPTCP;
	subflow = subflow_of(tp);
	note_worker(msk_of(subflow));
	if (READ_BITS(subflow, request_mptcp))
		state->observed.flags |= MPW_SF_ASKED_MPTCP;
	if (msk_of(subflow))
		note_handshake(&state->handshake, msk_of(subflow));
}

/*
 * After a SYN cookie the kernel computes the RTT from the time stamp of the SYN-ACK, in milliseconds, but the low bits of this stamp encode options
 * of the SYN (cookie_init_timestamp()), so the RTT is wrong by up to 64 ms. One in 32 correct RTTs of whole milliseconds is rejected as well.
 */
static __always_inline bool is_syn_cookie_rtt(const struct tcp_sock *tp)
{
	__u32 options = READ_BITS(tp, rx_opt.wscale_ok) ? READ_BITS(tp, rx_opt.snd_wscale) : 0xf;

	options |= READ_BITS(tp, rx_opt.sack_ok) ? 1 << 4 : 0;
	return !tp->total_retrans && (tp->srtt_us >> 3) % 1000 == 0 &&
	       (tp->rx_opt.rcv_tsecr & 0x1f) == options;
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
			state->observed.flags |= MPW_SF_MPTCP | MPW_SF_ASKED_MPTCP;
		state->observed.flags |= MPW_SF_PASSIVE;
		/* The first RTT sample of an accepted socket measures its SYN-ACK. */
		if (!is_syn_cookie_rtt(tp))
			state->observed.handshake_us = tp->srtt_us >> 3;
		state->observed.created_ns = now - state->observed.handshake_us * 1000ull;
	} else if (!state) {
		state = adopt_subflow(tp);
	}
	if (!state)
		return;
	if (old == TCP_SYN_SENT && state->observed.flags & MPW_SF_ASKED_MPTCP &&
	    !READ_BITS(subflow_of(tp), request_mptcp))
		state->observed.flags |= MPW_SF_OPTION_OMITTED;
	state->observed.established_ns = now;
	/* The handshake counts as progress, because a backup may be idle from now until it is needed. */
	state->received_ns = now;
	state->observed.progress_ns = now;
	if (old == TCP_SYN_SENT && state->observed.created_ns)
		state->observed.handshake_us = (now - state->observed.created_ns) / 1000;
	/* In the kernel's counters the SYN counts as one byte, even if mpwatch started after the SYN. */
	if (old == TCP_SYN_SENT)
		state->observed.syn_bytes =
			payload_sent(tp, state->observed.flags | MPW_SF_SEEN_OPEN);
	msk = msk_of_subflow(&state->observed, tp);
	if (msk) {
		note_handshake(&state->handshake, msk);
		state->observed.joined_bytes = payload_so_far(&state->handshake, msk);
	}
	refresh(&state->observed, tp);
	if (msk)
		state->observed.flags |= removed_addresses(&state->observed, msk)
					 << MPW_SF_OLD_RM_ADDR_SHIFT;
}

static __noinline int close_subflow(struct subflow_state *state, struct sock *sk,
				    struct tcp_sock *tp)
{
	struct mpw_observed *observed = &state->observed;
	struct mptcp_sock *msk;

	if (observed->closed_ns)
		return 0;
	if (!observed->established_ns && observed->flags & MPW_SF_SEEN_OPEN)
		observed->flags |= MPW_SF_NEVER_ESTABLISHED;
	if (!observed->error)
		observed->error = sk->sk_err;
	note_end(observed, tp, TCP_CLOSE);
	refresh(observed, tp);
	msk = msk_of_subflow(observed, tp);
	if (msk) {
		note_handshake(&state->handshake, msk);
		note_cause(observed, msk);
	}
	fill_tcp(&state->final, tp, observed->flags);
	observed->closed_ns = bpf_ktime_get_boot_ns();
	return 0;
}

static __always_inline void on_close(struct sock *sk, struct tcp_sock *tp)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);

	if (!state && has_carried_data(tp) && (tp->is_mptcp || settings.trace_tcp))
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

	if (!tp || (state && state->last_state == new))
		return;
	if (state && !(state->observed.flags & MPW_SF_MPTCP))
		note_closing_owner(&state->observed.owner, sk, new);
	/* Decides only whether tracing begins: a traced subflow stays traced even if it leaves its connection. */
	wanted = tp->is_mptcp || settings.trace_tcp;
	/* The opening was missed, or there was no memory for storage. Trace the socket now: on_close() adopts only sockets that have carried data. */
	if (!state && wanted && is_open(old))
		state = adopt_subflow(tp);
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
	case TCP_LAST_ACK:
		if (state)
			state->observed.flags |= MPW_SF_FIN_QUEUED;
		if (new == TCP_LAST_ACK)
			break;
		/* fall through */
	case TCP_CLOSE_WAIT:
		if (state)
			note_end(&state->observed, tp, new);
		break;
	case TCP_CLOSE:
		if (state && old == TCP_SYN_SENT)
			state->observed.flags |= MPW_SF_NEVER_ESTABLISHED;
		on_close(sk, tp);
		break;
	}
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (!state)
		return;
	state->last_state = new;
	count_packet(state);
	count_payload(state, tp);
	charge_subflow(state);
}

static __always_inline struct connection_state *open_connection(struct sock *sk, __u64 now)
{
	struct connection_state *connection = adopt_connection(sk);

	if (!connection)
		return NULL;
	connection->opened_ns = now;
	connection->closed_ns = 0;
	connection->fin_queued = 0;
	connection->lost = 0;
	__builtin_memset(&connection->reported, 0, sizeof(connection->reported));
	__builtin_memset(&connection->handshake, 0, sizeof(connection->handshake));
	return connection;
}

static __always_inline void send_connection(struct connection_state *connection, struct sock *sk)
{
	struct mpw_connection *record = reserve(sizeof(*record));
	bool has_bytes;

	if (record) {
		fill_connection(record, connection, sk);
		record->msk.flags |= MPW_MSK_FINAL;
		record->msk.state = TCP_CLOSE;
		has_bytes = !(record->msk.flags & MPW_MSK_BYTES_UNKNOWN);
		bpf_ringbuf_submit(record, 0);
		report_cgroup_of(sk);
		if (has_bytes)
			note_counted(connection->handshake.token);
	} else {
		count_lost_connection(connection, (struct mptcp_sock *)sk);
	}
	free_slot(&connection->cost_slot);
}

static __always_inline void on_connection_state(struct sock *sk, int old, int new)
{
	struct mptcp_sock *msk = (struct mptcp_sock *)sk;
	__u64 now = bpf_ktime_get_boot_ns();
	struct connection_state *connection;

	note_worker(msk);
	connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (connection && connection->last_state == new)
		return;
	if (new == TCP_SYN_SENT) {
		connection = open_connection(sk, now);
		if (connection)
			set_current_owner(&connection->owner);
	} else if (new == TCP_ESTABLISHED) {
		/* Without storage, the connection was accepted (its owner becomes known later), or its SYN_SENT was missed. */
		if (!connection)
			connection = old == TCP_SYN_SENT ? adopt_connection(sk)
							 : open_connection(sk, now);
		/* A snapshot since SYN_SENT may have read the keys of the socket's previous connection. */
		if (connection && old == TCP_SYN_SENT)
			__builtin_memset(&connection->handshake, 0, sizeof(connection->handshake));
		if (connection)
			note_handshake(&connection->handshake, msk);
	} else if (new == TCP_CLOSE) {
		/*
		 * The opening was missed. (A listener has no token.) But after free_storage() the second of the two programs
		 * finds no storage either. A second change to CLOSE may follow when the application closes the socket.
		 */
		if (!connection && old != TCP_CLOSE && READ(msk, token) &&
		    !is_counted(READ(msk, token))) {
			connection = adopt_connection(sk);
			if (!connection)
				count_lost_connection(NULL, msk);
		}
		if (!connection || connection->closed_ns)
			return;
		note_closing_owner(&connection->owner, sk, new);
		charge_connection(connection);
		connection->closed_ns = now;
		send_connection(connection, sk);
	} else if (connection) {
		note_closing_owner(&connection->owner, sk, new);
		connection->fin_queued |= has_queued_fin(new);
	}
	if (!connection)
		return;
	connection->last_state = new;
	charge_connection(connection);
}

/* Program array with handle_state_change, which user space inserts. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} state_changes SEC(".maps");

/*
 * From Linux 6.13 on, a program without a tail call may run on a stack that belongs to the CPU, because the kernel does not re-enter
 * programs. But two programs call this one, so it is re-entered; with that stack it overwrote kernel memory. So it has a tail call, which is
 * never executed: no state is negative.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(handle_state_change, struct sock *sk, int old, int new)
{
	__u16 protocol = sk->sk_protocol;

	if (new < 0)
		bpf_tail_call(ctx, &state_changes, 0);
	disable_preemption();
	if (protocol == IPPROTO_TCP)
		on_subflow_state(sk, old, new);
	else if (protocol == IPPROTO_MPTCP)
		on_connection_state(sk, old, new);
	if (protocol == IPPROTO_MPTCP && is_last_change(sk, old, new))
		free_storage(&connections, sk);
	enable_preemption();
	return 0;
}

/*
 * The kernel does not re-enter a program on one CPU. If a softirq interrupts the first program, the second one handles the softirq's changes of
 * state. Both tail-call handle_state_change, which disables preemption: otherwise, on Linux 7.x, a task that preempts the first program could
 * occupy the second one, and both would miss the changes of a softirq.
 */
SEC("tp_btf/inet_sock_set_state")
int on_set_state(void *ctx)
{
	bpf_tail_call(ctx, &state_changes, 0);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int on_set_state_nested(void *ctx)
{
	bpf_tail_call(ctx, &state_changes, 0);
	return 0;
}

/* The last event of a TCP socket with all fields readable, before its ULP is cleaned up. Handles a change to CLOSE that was missed. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(on_destroy, struct sock *sk)
{
	struct subflow_state *state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp)
		return 0;
	if (!state || !state->observed.closed_ns)
		on_close(sk, tp);
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (!state) {
		count_lost_untraced(tp);
		return 0;
	}
	send_subflow(state, sk);
	free_storage(&subflows, sk);
	return 0;
}
