// SPDX-License-Identifier: GPL-2.0-only
/* The five MPTCP tracepoints. Only mptcp_subflow_get_send names a subflow; the others are counted per host. None reports open or close. */
#include "compat.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "stall.bpf.h"

/* Values of enum mapping_status (net/mptcp/subflow.c). Some kernels lack the last two. */
#define MAPPING_STATUSES (MPW_COUNT_MAPPING_NODSS - MPW_COUNT_MAPPING_OK + 1)

/* Charges a kernel thread; elsewhere other tracepoints show better for which connection the CPU works. */
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
 * Fires for each subflow in every scheduler round. The kernel does not report the pick, but that subflow has new data in the next round.
 * Reinjections have no tracepoint; their data is counted in the same way.
 */
SEC("tp_btf/mptcp_subflow_get_send")
int BPF_PROG(on_schedule, struct mptcp_subflow_context *subflow)
{
	struct sock *ssk = subflow->tcp_sock;
	struct subflow_state *state;
	struct tcp_sock *tp;

	if (!ssk)
		return 0;
	state = bpf_sk_storage_get(&subflows, ssk, 0, 0);
	tp = bpf_skc_to_tcp_sock(ssk);
	if (!state || !tp)
		return 0;
	if (state->observed.sched_considered && tp->write_seq != state->write_seq_seen)
		state->observed.sched_picked++;
	state->observed.sched_considered++;
	state->write_seq_seen = tp->write_seq;
	start_waiting(state, msk_of(subflow));
	charge_scheduler(subflow->conn);
	return 0;
}

/* The mapping may be an earlier one that has grown by an unknown length, so its length is not a count of bytes sent. */
SEC("tp_btf/mptcp_sendmsg_frag")
int BPF_PROG(on_mapping_sent)
{
	count(MPW_COUNT_MAPPINGS_SENT, 1);
	return 0;
}

SEC("tp_btf/get_mapping_status")
int BPF_PROG(on_mapping_received)
{
	count(MPW_COUNT_MAPPINGS_RECEIVED, 1);
	return 0;
}

SEC("tp_btf/ack_update_msk")
int BPF_PROG(on_data_ack, __u64 data_ack, __u64 old_snd_una, __u64 new_snd_una)
{
	__s64 acked = new_snd_una - old_snd_una;

	count_both(MPW_COUNT_DATA_ACKS, 1, MPW_COUNT_DATA_ACKED_BYTES, acked > 0 ? acked : 0);
	return 0;
}

SEC("tp_btf/subflow_check_data_avail")
int BPF_PROG(on_mapping_verdict, __u8 status)
{
	__u64 verdict = status;

	/* Keeps the comparison in a form that the verifier can follow. */
	barrier_var(verdict);
	if (verdict < MAPPING_STATUSES)
		count(MPW_COUNT_MAPPING_OK + verdict, 1);
	return 0;
}
