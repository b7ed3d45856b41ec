// SPDX-License-Identifier: GPL-2.0-only
/* Marks of the CPU ledger that have no socket: tasks, interrupts, early packet processing, system calls. Loaded only with the ledger. */
#include "ledger.bpf.h"

/* A program of the ledger that may run where tasks can be preempted. `take` is given the CPU's ledger as `cpu`. */
#define MARK(tracepoint, name, take, args...)    \
	SEC("tp_btf/" #tracepoint)               \
	int BPF_PROG(name, ##args)               \
	{                                        \
		struct cpu_ledger *cpu;          \
		__u64 began;                     \
                                                 \
		disable_preemption();            \
		cpu = mark_cpu();                \
		if (cpu) {                       \
			began = begin_mark(cpu); \
			take;                    \
			end_mark(cpu, began);    \
		}                                \
		enable_preemption();             \
		return 0;                        \
	}

static __always_inline void settle_softirq(struct cpu_ledger *cpu, __u64 clock)
{
	__s64 used = clock - cpu->soft_since;

	charge(&cpu->softirq, clock, &cpu->softirq.current);
	if (used > 0)
		cpu->soft_ns += used;
	cpu->soft_since = 0;
}

/* The task stops running. Time of an unfinished system call stays pending, because its socket may be known only at its end. */
static __always_inline void stop_task(struct cpu_ledger *cpu, struct task_struct *prev, __u64 clock)
{
	struct level *level = &cpu->process;
	struct thread_marks *marks;
	__s64 amount;

	if (cpu->kind != TASK_USER) {
		charge(level, clock, &level->current);
		return;
	}
	marks = bpf_task_storage_get(&threads, prev, 0, 0);
	if (!marks || !cpu->in_syscall || level->current.tag) {
		charge(level, clock, &level->current);
	} else {
		amount = clock - level->last;
		if (amount > 0) {
			level->accounts[MPW_ACCOUNT_PENDING] += amount;
			level->carried += amount;
			level->last = clock;
		}
	}
	if (!marks)
		return;
	marks->carried = level->carried;
	marks->current = level->current;
	marks->in_syscall = cpu->in_syscall;
	marks->window = cpu->window;
	level->carried = 0;
}

static __always_inline void set_task(struct cpu_ledger *cpu, __u8 kind, __u8 account)
{
	cpu->kind = kind;
	cpu->in_syscall = 0;
	cpu->work = 0;
	cpu->process.current = (struct cpu_user){.account = account};
}

static __always_inline void start_task(struct cpu_ledger *cpu, struct task_struct *next)
{
	struct task_struct *leader;
	struct thread_marks *marks;

	if (!next->pid) {
		set_task(cpu, TASK_IDLE, MPW_ACCOUNT_IDLE);
		return;
	}
	if (next->flags & PF_KTHREAD) {
		set_task(cpu, TASK_KERNEL, MPW_ACCOUNT_OTHER);
		return;
	}
	marks = bpf_task_storage_get(&threads, next, 0, 0);
	if (marks) {
		set_task(cpu, TASK_USER, MPW_ACCOUNT_APP);
		cpu->process.carried = marks->carried;
		/* It has run since an earlier window. Most threads that wake up do so inside a system call. */
		if (marks->window != cpu->window) {
			cpu->in_syscall = 1;
			return;
		}
		cpu->in_syscall = marks->in_syscall;
		if (marks->current.tag)
			cpu->process.current = marks->current;
		return;
	}
	if (next->tgid == settings.self) {
		set_task(cpu, TASK_SELF, MPW_ACCOUNT_SELF);
		return;
	}
	leader = next->pid == next->tgid ? NULL : next->group_leader;
	marks = leader ? bpf_task_storage_get(&threads, leader, 0, 0) : NULL;
	if (marks)
		set_task(cpu, TASK_SIBLING, MPW_ACCOUNT_APP);
	else
		set_task(cpu, TASK_OTHER, MPW_ACCOUNT_OTHER);
}

static __always_inline void begin_cpu(struct cpu_ledger *cpu, struct task_struct *task)
{
	cpu->since_ns = bpf_ktime_get_ns();
	cpu->process.last = softirq_clock_at(cpu, cpu->since_ns) - cpu->soft_ns;
	start_task(cpu, task);
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
	cpu->marks_ns += cpu->mark_ns;
	began = begin_mark(cpu);
	cpu->is_unsure = 0;
	/* Only a kernel with PREEMPT_RT switches tasks inside a softirq. The remainder of that softirq is charged to its thread. */
	if (in_softirq(cpu))
		settle_softirq(cpu, softirq_clock(cpu));
	stop_task(cpu, prev, process_clock(cpu));
	start_task(cpu, next);
	end_mark(cpu, began);
	return 0;
}

static __always_inline void take_softirq_entry(struct cpu_ledger *cpu, unsigned int vector)
{
	__u8 account = MPW_ACCOUNT_IRQ, class = MPW_CPU_TIMER;
	__u64 clock;

	if (vector == NET_RX_SOFTIRQ || vector == NET_TX_SOFTIRQ) {
		account = MPW_ACCOUNT_NET_SHARED;
		class = vector == NET_RX_SOFTIRQ ? MPW_CPU_RX_SOFTIRQ : MPW_CPU_TX;
	} else if (vector == TASKLET_SOFTIRQ || vector == HRTIMER_SOFTIRQ) {
		class = MPW_CPU_TX;
	}
	cpu->is_unsure = 0;
	clock = softirq_clock(cpu);
	cpu->softirq.last = clock;
	cpu->softirq.current = (struct cpu_user){.account = account};
	cpu->soft_class = class;
	cpu->soft_since = clock;
}

MARK(softirq_entry, ledger_softirq_entry, take_softirq_entry(cpu, vector), unsigned int vector)

static __always_inline void take_softirq_exit(struct cpu_ledger *cpu)
{
	cpu->is_unsure = 0;
	if (in_softirq(cpu))
		settle_softirq(cpu, softirq_clock(cpu));
}

MARK(softirq_exit, ledger_softirq_exit, take_softirq_exit(cpu))

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(ledger_irq_entry)
{
	struct cpu_ledger *cpu = mark_cpu();

	if (cpu)
		cpu->hard_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(ledger_irq_exit)
{
	struct cpu_ledger *cpu = mark_cpu();

	if (!cpu || !cpu->hard_since)
		return 0;
	cpu->hard_ns += bpf_ktime_get_ns() - cpu->hard_since;
	cpu->hard_since = 0;
	return 0;
}

/* A packet enters the stack. Its cost is charged when it reaches its socket. */
static __always_inline void take_packet(struct cpu_ledger *cpu)
{
	if (in_softirq(cpu))
		switch_account(&cpu->softirq, softirq_clock(cpu), MPW_ACCOUNT_NET_SHARED);
	else if (cpu->kind == TASK_KERNEL)
		switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_NET_SHARED);
}

MARK(netif_receive_skb, ledger_packet, take_packet(cpu))

/* A softirq sends a packet: from a timer or a queue. In the receive path it is the answer to the current ACK. */
static __always_inline void take_transmit(struct cpu_ledger *cpu, struct sk_buff *skb)
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

MARK(net_dev_start_xmit, ledger_transmit, take_transmit(cpu, skb), struct sk_buff *skb)

/* The process has run its own code until here. */
static __always_inline void take_sys_enter(struct cpu_ledger *cpu)
{
	cpu->is_unsure = 0;
	if (cpu->kind != TASK_USER && cpu->kind != TASK_SIBLING)
		return;
	switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_APP);
	cpu->in_syscall = 1;
}

MARK(sys_enter, ledger_sys_enter, take_sys_enter(cpu))

/* A system call that used no traced socket is charged to the process. */
static __always_inline void take_sys_exit(struct cpu_ledger *cpu)
{
	cpu->is_unsure = 0;
	if (cpu->kind != TASK_USER && cpu->kind != TASK_SIBLING)
		return;
	switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_APP);
	cpu->in_syscall = 0;
}

MARK(sys_exit, ledger_sys_exit, take_sys_exit(cpu))

/* Whether the CPU runs a kernel thread and no softirq. */
static __always_inline bool in_worker(struct cpu_ledger *cpu)
{
	return cpu->kind == TASK_KERNEL && !in_softirq(cpu);
}

/* Between two work items the worker mostly wakes up. This goes to the socket of the previous item, if known, else to that of the next. */
static __always_inline void take_work_start(struct cpu_ledger *cpu, struct work_struct *work)
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

MARK(workqueue_execute_start, ledger_work_start, take_work_start(cpu, work),
     struct work_struct *work)

static __always_inline void take_work_end(struct cpu_ledger *cpu)
{
	if (!in_worker(cpu))
		return;
	cpu->work = 0;
	if (!cpu->process.current.tag)
		switch_account(&cpu->process, process_clock(cpu), MPW_ACCOUNT_OTHER);
}

MARK(workqueue_execute_end, ledger_work_end, take_work_end(cpu))

static __always_inline void copy_accounts(struct mpw_cpu_accounts *out, struct cpu_ledger *cpu,
					  __u64 now)
{
	for (int i = 0; i < MPW_ACCOUNTS; i++)
		out->ns[i] = cpu->process.accounts[i] + cpu->softirq.accounts[i];
	out->ns[MPW_ACCOUNT_IRQ] += cpu->hard_ns;
	out->ns[MPW_ACCOUNT_SELF] += cpu->marks_ns;
	out->marks_ns = cpu->marks_ns;
	out->since_ns = (cpu->since_ns ?: now) - cpu->elapsed_ns;
	out->at_ns = now;
}

/* Adds the time since the last mark. If the mark is ahead of the clock, the accounts reach beyond now: no account may shrink. */
static __always_inline void add_since_mark(struct mpw_cpu_accounts *out, struct level *level,
					   __u64 clock)
{
	__s64 amount = clock - level->last;

	if (amount >= 0)
		out->ns[level->current.account & (MPW_ACCOUNTS - 1)] += amount;
	else
		out->at_ns -= amount;
}

/* Copies a CPU's accounts with the work in progress. Runs in an interrupt of that CPU. Only reads, unless no task has switched yet. */
SEC("raw_tp")
int ledger_settle(void *ctx)
{
	struct mpw_cpu_accounts *out;
	struct cpu_ledger *cpu;
	__u64 now, process, softirq;
	__u32 zero = 0;

	cpu = bpf_map_lookup_elem(&ledger, &zero);
	out = bpf_map_lookup_elem(&settled, &zero);
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

/* Opens a window on this CPU, after the marks were attached. Arguments: number of the window, time of one mark in nanoseconds. */
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
	cpu->mark_ns = ctx->args[1];
	cpu->hard_since = 0;
	cpu->soft_since = 0;
	cpu->is_unsure = 1;
	begin_cpu(cpu, bpf_get_current_task_btf());
	return 0;
}

/* Closes the window on this CPU, before the marks are detached, and copies its accounts. */
SEC("raw_tp")
int ledger_close(void *ctx)
{
	struct mpw_cpu_accounts *out;
	struct cpu_ledger *cpu;
	__u32 zero = 0;
	__u64 now;

	cpu = bpf_map_lookup_elem(&ledger, &zero);
	out = bpf_map_lookup_elem(&settled, &zero);
	if (!cpu || !out || !cpu->since_ns)
		return 0;
	now = bpf_ktime_get_ns();
	if (in_softirq(cpu))
		settle_softirq(cpu, softirq_clock_at(cpu, now));
	stop_task(cpu, bpf_get_current_task_btf(), softirq_clock_at(cpu, now) - cpu->soft_ns);
	cpu->elapsed_ns += now - cpu->since_ns;
	cpu->since_ns = 0;
	copy_accounts(out, cpu, now);
	return 0;
}
