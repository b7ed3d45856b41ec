/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPU ledger charges the time of each CPU to accounts. A mark (a tracepoint) charges the time since the previous mark to one user of
 * the CPU, and sets the default user for the time that follows.
 *
 * A CPU has three levels: process, softirq, device interrupt. Each level stops the clocks of the levels below it: the clock of a level is the
 * time minus what the levels above have used. So no two levels write the same field, no atomics are needed, and all accounts sum to the
 * elapsed time. No mark may be preempted, or the mark of the task switch would run in the middle of it.
 */
#ifndef MPWATCH_LEDGER_BPF_H
#define MPWATCH_LEDGER_BPF_H

#include "compat.bpf.h"
#include "cost.bpf.h"
#include "kernel.bpf.h"
#include "maps.bpf.h"

/* include/linux/interrupt.h */
enum {
	TIMER_SOFTIRQ = 1,
	NET_TX_SOFTIRQ = 2,
	NET_RX_SOFTIRQ = 3,
	TASKLET_SOFTIRQ = 6,
	HRTIMER_SOFTIRQ = 8,
};

/* Kinds of tasks at the process level. */
enum task_kind {
	/* A process that owns no traced socket. */
	TASK_OTHER,
	/* A thread that has used a traced socket. Its state is saved while it does not run. */
	TASK_USER,
	/* Another thread of the process of a TASK_USER. */
	TASK_SIBLING,
	TASK_KERNEL,
	/* mpwatch itself, and the idle task. */
	TASK_SELF,
	TASK_IDLE,
};

/* The socket or account to which time is charged. */
struct cpu_user {
	/* Cookie of the socket; 0: no socket, only an account. Detects a reused slot, because cookies are never reused. */
	__u64 tag;
	__u32 slot;
	/* enum mpw_account, enum mpw_cpu_class */
	__u8 account;
	__u8 class;
	__u8 _reserved[2];
};

struct level {
	/* Time of the last mark, on the clock of the level. */
	__u64 last;
	/* Time of an unfinished system call before the task was last switched out. MPW_ACCOUNT_PENDING includes it until it is charged. */
	__u64 carried;
	/* Default user for the time since the last mark. */
	struct cpu_user current;
	__u64 accounts[MPW_ACCOUNTS];
};

struct cpu_ledger {
	/* Start of the sampling window or, for an exact (not sampled) ledger, of the ledger. 0: marks do nothing. */
	__u64 since_ns;
	/* Total length of earlier sampling windows. */
	__u64 elapsed_ns;
	/* Estimated time of the marks of a sampled ledger. No level's clock includes it, because a window stands for time without marks. */
	__u64 programs_ns;
	/* Total time of device interrupts, and start of the current interrupt (0: none). */
	__u64 hard_ns;
	__u64 hard_since;
	/* The same for softirqs, on the softirq clock. */
	__u64 soft_ns;
	__u64 soft_since;
	struct level process;
	struct level softirq;
	/* enum task_kind of the current task, and whether it is in a system call. */
	__u8 kind;
	__u8 in_syscall;
	/* enum mpw_cpu_class of work for a socket in the current softirq. */
	__u8 soft_class;
	/* 1: the window has just begun, maybe inside a softirq, so the current level is unknown. */
	__u8 level_unknown;
	__u8 _reserved[4];
	/* Number of the window, and the estimated time (ns) of a mark that charges nothing, including the kernel's dispatch. */
	__u32 window, run_ns;
	/* Number of marks so far, and the time (ns) that one reading of the clock takes. */
	__u32 marks, clock_ns;
	/* Address and function of the current work item, and the function of mptcp_worker once it is known. */
	__u64 work;
	__u64 work_function;
	__u64 mptcp_worker;
};

MAP(ledger, PERCPU_ARRAY, 1, __u32, struct cpu_ledger);

/* State of a thread while it does not run. Freed with the task. */
struct thread_ledger {
	__u64 carried;
	struct cpu_user current;
	__u32 in_syscall;
	/* The window in which the thread stopped running. */
	__u32 window;
};

STORAGE(threads, TASK_STORAGE, struct thread_ledger);

static __always_inline struct cpu_ledger *this_cpu(void)
{
	__u32 zero = 0;
	struct cpu_ledger *cpu = bpf_map_lookup_elem(&ledger, &zero);

	return cpu && cpu->since_ns ? cpu : NULL;
}

/*
 * On top of the kernel's dispatch, a mark takes between almost no time and several times the dispatch time, depending on its charges and on
 * the caches. Reading the clock twice takes as long as a short mark, so only one mark in TIMED_ONE_IN is timed, as a sample of all marks.
 */
#define TIMED_ONE_IN 16
/* A timed mark that took longer was interrupted. Its time is ignored. */
#define MAX_RUN_NS 2000

/* Time at which the mark began; 0: this mark is not timed. */
static __always_inline __u64 begin_timing(struct cpu_ledger *cpu)
{
	if (!settings.ledger_sampled || cpu->marks++ % TIMED_ONE_IN)
		return 0;
	return bpf_ktime_get_ns();
}

static __always_inline void end_timing(struct cpu_ledger *cpu, __u64 began)
{
	__u64 took;

	if (!began)
		return;
	took = bpf_ktime_get_ns() - began;
	if (took > cpu->clock_ns && took < MAX_RUN_NS)
		cpu->programs_ns += (took - cpu->clock_ns) * TIMED_ONE_IN;
}

/* As this_cpu(), but also counts the mark's estimated time. For programs that a sampled ledger attaches in windows only. */
static __always_inline struct cpu_ledger *enter_cpu(void)
{
	struct cpu_ledger *cpu = this_cpu();

	if (cpu && settings.ledger_sampled)
		cpu->programs_ns += cpu->run_ns;
	return cpu;
}

static __always_inline __u64 softirq_clock_at(struct cpu_ledger *cpu, __u64 now)
{
	return now - cpu->hard_ns - cpu->programs_ns;
}

/* Reads the time first: an interrupt after that makes the result too small, never too large, and the next mark corrects the error. */
static __always_inline __u64 softirq_clock(struct cpu_ledger *cpu)
{
	__u64 now = bpf_ktime_get_ns();

	barrier();
	return softirq_clock_at(cpu, now);
}

static __always_inline __u64 process_clock(struct cpu_ledger *cpu)
{
	return softirq_clock(cpu) - cpu->soft_ns;
}

static __always_inline bool in_softirq(struct cpu_ledger *cpu)
{
	return cpu->soft_since;
}

/* Atomic: several CPUs may work for a socket at the same time. False: the socket is gone, and its slot may belong to another socket. */
static __always_inline bool add_cost(const struct cpu_user *to, __u64 amount)
{
	struct cost *cost = bpf_map_lookup_elem(&costs, &to->slot);

	if (!cost || cost->tag != to->tag || to->class >= MPW_CPU_CLASSES)
		return false;
	__sync_fetch_and_add(&cost->ns[to->class], amount);
	return true;
}

/* Charges the time since the last mark, and the time from before the task was switched out (`carried`), to `to`. */
static __noinline int charge(struct level *level, __u64 clock, const struct cpu_user *to)
{
	__s64 amount = clock - level->last;
	__u32 account = to->account;

	if (amount < 0)
		amount = 0;
	else
		level->last = clock;
	if (level->carried) {
		level->accounts[MPW_ACCOUNT_PENDING] -= level->carried;
		amount += level->carried;
		level->carried = 0;
	}
	if (to->tag && !add_cost(to, amount))
		account = MPW_ACCOUNT_NET_SHARED;
	level->accounts[account & (MPW_ACCOUNTS - 1)] += amount;
	return 0;
}

static __always_inline void switch_account(struct level *level, __u64 clock, __u8 account)
{
	charge(level, clock, &level->current);
	level->current = (struct cpu_user){.account = account};
}

/* Called when a thread first uses a traced socket. The process's other threads become TASK_SIBLING, except in mpwatch (demo, selftest). */
static __noinline int track_thread(struct cpu_ledger *cpu)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct *leader = task->group_leader;

	bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (leader && cpu->kind != TASK_SELF)
		bpf_task_storage_get(&threads, leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	cpu->kind = TASK_USER;
	cpu->in_syscall = 1;
	return 0;
}

static __always_inline int charge_socket_of(struct cpu_ledger *cpu, __u32 *slot, __u64 tag)
{
	struct cpu_user to = {.tag = tag, .account = MPW_ACCOUNT_FLOW};
	struct level *level;
	__u64 clock;

	if (!cpu || cpu->level_unknown)
		return 0;
	if (in_softirq(cpu)) {
		level = &cpu->softirq;
		clock = softirq_clock(cpu);
		to.class = cpu->soft_class;
	} else {
		if (cpu->kind == TASK_IDLE)
			return 0;
		level = &cpu->process;
		clock = process_clock(cpu);
		to.class = cpu->kind == TASK_KERNEL ? MPW_CPU_WORKER : MPW_CPU_SYSCALL;
		/* System calls of this task were not marked so far, so the start of this call is unknown. */
		if (cpu->kind == TASK_OTHER || cpu->kind == TASK_SELF)
			charge(level, clock, &level->current);
		if (cpu->kind != TASK_USER && cpu->kind != TASK_KERNEL)
			track_thread(cpu);
	}
	to.slot = slot_of(slot, tag);
	if (to.slot == NO_SLOT)
		return 0;
	charge(level, clock, &to);
	level->current = to;
	return 0;
}

/*
 * Charges the time since the last mark to a socket, which becomes the default user for the time that follows. `slot` is in the
 * socket's storage.
 */
static __noinline int charge_socket(__u32 *slot, __u64 tag)
{
	disable_preemption();
	charge_socket_of(this_cpu(), slot, tag);
	enable_preemption();
	return 0;
}

/* A subflow or connection is not charged after its final record, because nothing would free its slot. */
static __always_inline void charge_subflow(struct subflow_state *state)
{
	if (settings.ledger && state->observed.cookie && !state->final_sent)
		charge_socket(&state->cost_slot, state->observed.cookie);
}

static __always_inline void charge_connection(struct connection_state *connection)
{
	if (settings.ledger && connection->cookie && !connection->closed_ns)
		charge_socket(&connection->cost_slot, connection->cookie);
}

/* If the current work item belongs to an MPTCP socket, its function is mptcp_worker(). */
static __always_inline void note_worker(struct mptcp_sock *msk)
{
	struct cpu_ledger *cpu;

	if (!settings.ledger)
		return;
	cpu = this_cpu();
	if (cpu && cpu->work && cpu->work == (__u64)&msk->work)
		cpu->mptcp_worker = cpu->work_function;
}

/* Charges the processing of a received segment. If a system call processes the segment (from the backlog), the call is charged. */
static __always_inline void charge_segment(struct subflow_state *state)
{
	struct cpu_ledger *cpu;
	__u64 began;

	if (!settings.ledger)
		return;
	cpu = this_cpu();
	if (!cpu || !(in_softirq(cpu) || cpu->kind == TASK_KERNEL))
		return;
	began = begin_timing(cpu);
	charge_subflow(state);
	end_timing(cpu, began);
}

/* Charges the processing of a received segment whose TCP connection is not traced. */
static __always_inline void charge_untraced(void)
{
	struct cpu_ledger *cpu;

	if (!settings.ledger)
		return;
	disable_preemption();
	cpu = this_cpu();
	if (cpu && in_softirq(cpu)) {
		cpu->softirq.current = (struct cpu_user){.account = MPW_ACCOUNT_OTHER};
		switch_account(&cpu->softirq, softirq_clock(cpu), MPW_ACCOUNT_OTHER);
	}
	enable_preemption();
}

#endif
