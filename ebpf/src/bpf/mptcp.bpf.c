// SPDX-License-Identifier: GPL-2.0-only
/*
 * The five MPTCP tracepoints, each for what it can honestly tell. Only mptcp_subflow_get_send names a subflow; the other four
 * carry no socket, so they are counted for the host. None of them reports the creation or the end of a subflow.
 */
#include "compat.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "stall.bpf.h"

/* enum mapping_status of net/mptcp/subflow.c; the last two are not in all kernels */
#define MAPPING_STATUSES 7

/* In a kernel thread only a look of the scheduler tells whose work it is; elsewhere that shows better. */
static __always_inline void claim_for_scheduler(struct sock *msk)
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
		claim_for_connection(connection);
}

/*
 * Fires once a subflow in every round of the scheduler, whichever it picks. The kernel does not say which one that was; it
 * shows at the next round, when the picked subflow has been given data to send. (Reinjections use another function of the
 * kernel, which has no tracepoint; the data they add shows here in the same way.)
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
	if (state->sched_considered && tp->write_seq != state->write_seq_seen)
		state->sched_picked++;
	state->sched_considered++;
	state->write_seq_seen = tp->write_seq;
	begin_to_wait(state, msk_of(subflow));
	claim_for_scheduler(subflow->conn);
	return 0;
}

/*
 * Its mapping may be one that was announced before and now grows by an unknown part, so its length is no count of bytes sent.
 */
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

	/* So that the compiler leaves the comparison in a form that the verifier can follow. */
	barrier_var(verdict);
	if (verdict < MAPPING_STATUSES)
		count(MPW_COUNT_MAPPING_OK + verdict, 1);
	return 0;
}
