// SPDX-License-Identifier: GPL-2.0-only
/* Owner of a socket: the process that connects or closes it (lifecycle.bpf.c), has it open when find_owners() runs, or uses it (ledger only). */
#include "compat.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"

static __always_inline bool is_connection(struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return state != TCP_LISTEN && state != TCP_CLOSE;
}

static __always_inline void charge_use(struct sock *sk)
{
	struct connection_state *connection;
	struct subflow_state *subflow;

	if (sk->sk_protocol == IPPROTO_MPTCP) {
		connection = bpf_sk_storage_get(&connections, sk, 0, 0);
		if (!connection && is_connection(sk))
			connection = adopt_connection(sk);
		if (!connection)
			return;
		if (!connection->owner.pid)
			set_current_owner(&connection->owner);
		charge_connection(connection);
	} else if (settings.trace_tcp && sk->sk_protocol == IPPROTO_TCP) {
		subflow = bpf_sk_storage_get(&subflows, sk, 0, 0);
		if (!subflow)
			return;
		if (!subflow->observed.owner.pid)
			set_current_owner(&subflow->observed.owner);
		charge_subflow(subflow);
	}
}

static __always_inline void on_use(struct sock *sk)
{
	struct cpu_ledger *cpu = enter_cpu();
	__u64 began = cpu ? begin_timing(cpu) : 0;

	charge_use(sk);
	if (cpu)
		end_timing(cpu, began);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk)
{
	on_use(sk);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_receive, struct sock *sk)
{
	on_use(sk);
	return 0;
}

/* Runs for each open file of each process, in all namespaces. */
SEC("iter/task_file")
int find_owners(struct bpf_iter__task_file *ctx)
{
	struct connection_state *connection;
	struct task_struct *task = ctx->task;
	struct subflow_state *subflow;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;

	socket = file && task ? bpf_sock_from_file(file) : NULL;
	if (!socket || !socket->sk)
		return 0;
	sk = socket->sk;
	if (sk->sk_protocol == IPPROTO_MPTCP && is_connection(sk)) {
		connection = adopt_connection(sk);
		if (connection && !connection->owner.pid)
			set_owner(&connection->owner, task);
	} else if (settings.trace_tcp && sk->sk_protocol == IPPROTO_TCP) {
		subflow = bpf_sk_storage_get(&subflows, sk, 0, 0);
		if (subflow && !subflow->observed.owner.pid)
			set_owner(&subflow->observed.owner, task);
	}
	return 0;
}
