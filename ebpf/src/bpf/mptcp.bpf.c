// SPDX-License-Identifier: GPL-2.0-only
/* Rounds of the MPTCP scheduler. The other MPTCP tracepoints do not identify a subflow; the MIB counts the errors that they report (mib.rs). */
#include "compat.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"

/* Charges kernel threads only: softirqs and system calls are charged at tracepoints that identify the connection more exactly. */
static __always_inline void charge_scheduler(struct sock *msk)
{
	struct connection_state *connection;
	struct cpu_ledger *cpu;

	if (!settings.ledger)
		return;
	cpu = this_cpu();
	if (!cpu || !msk || in_softirq(cpu) || cpu->kind != TASK_KERNEL)
		return;
	connection = bpf_sk_storage_get(&connections, msk, 0, 0);
	if (connection)
		charge_connection(connection);
}

/*
 * Fires for each subflow in every scheduler round. The kernel does not report which subflow it picks, but in the next round that subflow has
 * new data. Reinjections have no tracepoint; their data counts as new data.
 */
SEC("tp_btf/mptcp_subflow_get_send")
int BPF_PROG(on_schedule, struct mptcp_subflow_context *subflow)
{
	struct sock *ssk = subflow->tcp_sock;
	struct subflow_state *state;
	struct tcp_sock *tp;

	enter_cpu();
	if (!ssk)
		return 0;
	state = bpf_sk_storage_get(&subflows, ssk, 0, 0);
	tp = bpf_skc_to_tcp_sock(ssk);
	if (!state || !tp)
		return 0;
	if (state->observed.sched_considered && tp->write_seq != state->last_write_seq)
		state->observed.sched_picked++;
	state->observed.sched_considered++;
	state->last_write_seq = tp->write_seq;
	charge_scheduler(subflow->conn);
	return 0;
}
