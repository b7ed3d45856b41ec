// SPDX-License-Identifier: GPL-2.0-only
/* Marks of the CPU ledger at task switches, interrupts, packets, system calls and work items. Loaded only if the ledger is on. */
#include "ledger.bpf.h"
#include "task.bpf.h"

/* Runs `statement` as a mark: with the ledger of this CPU in `cpu`, without preemption, and timed. */
#define MARK(cpu, statement)                       \
	do {                                       \
		struct cpu_ledger *cpu;            \
		__u64 began;                       \
                                                   \
		disable_preemption();              \
		cpu = enter_cpu();                 \
		if (cpu) {                         \
			began = begin_timing(cpu); \
			statement;                 \
			end_timing(cpu, began);    \
		}                                  \
		enable_preemption();               \
	} while (0)

static __always_inline void end_softirq(struct cpu_ledger *cpu, __u64 clock)
{
	__s64 used = clock - cpu->soft_since;

	charge(&cpu->softirq, clock, &cpu->softirq.current);
	if (used > 0)
		cpu->soft_ns += used;
	cpu->soft_since = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(ledger_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 zero = 0;
	struct cpu_ledger *cpu = bpf_map_lookup_elem(&ledger, &zero);
	__u64 began;

	if (!cpu)
		return 0;
	if (!cpu->since_ns) {
		if (!settings.ledger_sampled)
			begin_cpu(cpu, next);
		return 0;
	}
	cpu->programs_ns += cpu->run_ns;
	began = begin_timing(cpu);
	cpu->level_unknown = 0;
	/* Only a kernel with PREEMPT_RT switches tasks inside a softirq. The remainder of that softirq is charged to its thread. */
	if (in_softirq(cpu))
		end_softirq(cpu, softirq_clock(cpu));
	stop_task(cpu, prev, process_clock(cpu));
	start_task(cpu, next);
	end_timing(cpu, began);
	return 0;
}

static __always_inline void enter_softirq(struct cpu_ledger *cpu, unsigned int vector)
{
	__u8 account = MPW_ACCOUNT_IRQ, class = MPW_CPU_TIMER;
	__u64 clock;

	if (vector == NET_RX_SOFTIRQ || vector == NET_TX_SOFTIRQ) {
		account = MPW_ACCOUNT_NET_SHARED;
		class = vector == NET_RX_SOFTIRQ ? MPW_CPU_RX_SOFTIRQ : MPW_CPU_TX;
	} else if (vector == TASKLET_SOFTIRQ || vector == HRTIMER_SOFTIRQ) {
		class = MPW_CPU_TX;
	}
	cpu->level_unknown = 0;
	clock = softirq_clock(cpu);
	cpu->softirq.last = clock;
	cpu->softirq.current = (struct cpu_user){.account = account};
	cpu->soft_class = class;
	cpu->soft_since = clock;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(ledger_softirq_entry, unsigned int vector)
{
	MARK(cpu, enter_softirq(cpu, vector));
	return 0;
}

static __always_inline void leave_softirq(struct cpu_ledger *cpu)
{
	cpu->level_unknown = 0;
	if (in_softirq(cpu))
		end_softirq(cpu, softirq_clock(cpu));
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(ledger_softirq_exit)
{
	MARK(cpu, leave_softirq(cpu));
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(ledger_irq_entry)
{
	struct cpu_ledger *cpu = enter_cpu();

	if (cpu)
		cpu->hard_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(ledger_irq_exit)
{
	struct cpu_ledger *cpu = enter_cpu();

	if (!cpu || !cpu->hard_since)
		return 0;
	cpu->hard_ns += bpf_ktime_get_ns() - cpu->hard_since;
	cpu->hard_since = 0;
	return 0;
}

/* A packet enters the stack. Its CPU time is charged to its socket when it arrives there. */
static __always_inline void enter_stack(struct cpu_ledger *cpu)
{
	if (in_softirq(cpu))
		switch_account(&cpu->softirq, softirq_clock(cpu), MPW_ACCOUNT_NET_SHARED);
	else if (cpu->kind == TASK_KERNEL)
		switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_NET_SHARED);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(ledger_packet)
{
	MARK(cpu, enter_stack(cpu));
	return 0;
}

/* A softirq sends a packet from a timer or a queue. A packet sent in the receive path answers a segment whose socket is charged already. */
static __always_inline void charge_transmit(struct cpu_ledger *cpu, struct sk_buff *skb)
{
	struct subflow_state *state;
	struct cpu_user *current;
	struct sock *sk;

	if (!in_softirq(cpu))
		return;
	current = &cpu->softirq.current;
	if (current->tag && cpu->soft_class == MPW_CPU_RX_SOFTIRQ)
		return;
	sk = skb->sk;
	if (!sk)
		return;
	state = bpf_sk_storage_get(&subflows, sk, 0, 0);
	if (!state || (current->tag && current->tag == state->observed.cookie))
		return;
	if (current->tag)
		switch_account(&cpu->softirq, softirq_clock(cpu), MPW_ACCOUNT_NET_SHARED);
	charge_subflow(state);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(ledger_transmit, struct sk_buff *skb)
{
	MARK(cpu, charge_transmit(cpu, skb));
	return 0;
}

/* The process enters a system call. Until this mark, it has run its own code. */
static __always_inline void enter_syscall(struct cpu_ledger *cpu)
{
	cpu->level_unknown = 0;
	if (cpu->kind != TASK_USER && cpu->kind != TASK_SIBLING)
		return;
	switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_APP);
	cpu->in_syscall = 1;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(ledger_sys_enter)
{
	MARK(cpu, enter_syscall(cpu));
	return 0;
}

/* A system call that used no traced socket is charged to the process. */
static __always_inline void leave_syscall(struct cpu_ledger *cpu)
{
	cpu->level_unknown = 0;
	if (cpu->kind != TASK_USER && cpu->kind != TASK_SIBLING)
		return;
	switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_APP);
	cpu->in_syscall = 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(ledger_sys_exit)
{
	MARK(cpu, leave_syscall(cpu));
	return 0;
}

/* Whether the CPU runs a kernel thread and no softirq. */
static __always_inline bool in_worker(struct cpu_ledger *cpu)
{
	return cpu->kind == TASK_KERNEL && !in_softirq(cpu);
}

/* The time between two work items is mostly wake-up time. It is charged to the socket of the previous item, if known, else of the next item. */
static __always_inline void start_work(struct cpu_ledger *cpu, struct work_struct *work)
{
	if (!in_worker(cpu))
		return;
	if (cpu->process.current.tag)
		switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_OTHER);
	cpu->work = (__u64)work;
	cpu->work_function = (__u64)work->func;
	if (cpu->work_function == cpu->mptcp_worker)
		cpu->process.current.account = MPW_ACCOUNT_NET_SHARED;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(ledger_work_start, struct work_struct *work)
{
	MARK(cpu, start_work(cpu, work));
	return 0;
}

static __always_inline void end_work(struct cpu_ledger *cpu)
{
	if (!in_worker(cpu))
		return;
	cpu->work = 0;
	if (!cpu->process.current.tag)
		switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_OTHER);
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(ledger_work_end)
{
	MARK(cpu, end_work(cpu));
	return 0;
}

static __always_inline void copy_accounts(struct mpw_cpu_accounts *out, struct cpu_ledger *cpu,
					  __u64 now)
{
	for (int i = 0; i < MPW_ACCOUNTS; i++)
		out->ns[i] = cpu->process.accounts[i] + cpu->softirq.accounts[i];
	out->ns[MPW_ACCOUNT_IRQ] += cpu->hard_ns;
	out->ns[MPW_ACCOUNT_SELF] += cpu->programs_ns;
	out->programs_ns = cpu->programs_ns;
	out->since_ns = (cpu->since_ns ?: now) - cpu->elapsed_ns;
	out->at_ns = now;
}

/* Adds the time since the last mark. If the clock is behind the mark, adds the difference to at_ns instead, because no account may shrink. */
static __always_inline void add_since_mark(struct mpw_cpu_accounts *out, struct level *level,
					   __u64 clock)
{
	__s64 amount = clock - level->last;

	if (amount >= 0)
		out->ns[level->current.account & (MPW_ACCOUNTS - 1)] += amount;
	else
		out->at_ns -= amount;
}

/*
 * Copies a CPU's accounts including the time since the last mark. Runs in an interrupt of that CPU. Does not change the ledger, except that it
 * starts an exact ledger if no task has switched yet.
 */
SEC("raw_tp")
int ledger_read(void *ctx)
{
	struct mpw_cpu_accounts *out;
	struct cpu_ledger *cpu;
	__u64 now, process, softirq;
	__u32 zero = 0;

	cpu = bpf_map_lookup_elem(&ledger, &zero);
	out = bpf_map_lookup_elem(&cpu_accounts, &zero);
	if (!cpu || !out)
		return 0;
	if (!cpu->since_ns) {
		if (settings.ledger_sampled)
			return 0;
		begin_cpu(cpu, bpf_get_current_task_btf());
	}
	now = bpf_ktime_get_ns();
	softirq = softirq_clock_at(cpu, now);
	process = (in_softirq(cpu) ? cpu->soft_since : softirq) - cpu->soft_ns;
	copy_accounts(out, cpu, now);
	add_since_mark(out, &cpu->process, process);
	if (in_softirq(cpu))
		add_since_mark(out, &cpu->softirq, softirq);
	return 0;
}

/* Opens a sampling window on this CPU, after the programs were attached. Arguments: number of the window, time of one mark in nanoseconds. */
SEC("raw_tp")
int ledger_open(struct bpf_raw_tracepoint_args *ctx)
{
	struct cpu_ledger *cpu;
	__u32 zero = 0;
	__u64 clock;

	cpu = bpf_map_lookup_elem(&ledger, &zero);
	if (!cpu || cpu->since_ns)
		return 0;
	clock = bpf_ktime_get_ns();
	cpu->clock_ns = bpf_ktime_get_ns() - clock;
	cpu->window = ctx->args[0];
	cpu->run_ns = ctx->args[1];
	cpu->hard_since = 0;
	cpu->soft_since = 0;
	cpu->level_unknown = 1;
	begin_cpu(cpu, bpf_get_current_task_btf());
	return 0;
}

/* Closes the sampling window on this CPU, before the programs are detached, and copies its accounts. */
SEC("raw_tp")
int ledger_close(void *ctx)
{
	struct mpw_cpu_accounts *out;
	struct cpu_ledger *cpu;
	__u32 zero = 0;
	__u64 now;

	cpu = bpf_map_lookup_elem(&ledger, &zero);
	out = bpf_map_lookup_elem(&cpu_accounts, &zero);
	if (!cpu || !out || !cpu->since_ns)
		return 0;
	now = bpf_ktime_get_ns();
	if (in_softirq(cpu))
		end_softirq(cpu, softirq_clock_at(cpu, now));
	stop_task(cpu, bpf_get_current_task_btf(), softirq_clock_at(cpu, now) - cpu->soft_ns);
	cpu->elapsed_ns += now - cpu->since_ns;
	cpu->since_ns = 0;
	copy_accounts(out, cpu, now);
	return 0;
}
