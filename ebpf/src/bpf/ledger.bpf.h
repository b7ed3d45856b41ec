/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPU ledger: whose time it is that passes on each CPU. At any moment it belongs to one account; a mark (a tracepoint) gives
 * the time since the mark before it to somebody, and says whose the time from now on is if nobody else claims it.
 *
 * A CPU has three levels, each of which stops the clock of those below it: a process, the softirq that interrupts it (or that it
 * runs on its way out of the stack), a device's interrupt. A level's clock is the time minus what the levels above have used, so no
 * level ever touches what another writes: no atomics, and the accounts sum to the time that has passed, by construction.
 */
#ifndef MPWATCH_LEDGER_BPF_H
#define MPWATCH_LEDGER_BPF_H

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

/* What kind of task runs at the level of processes. */
enum task_kind {
	/* A process that owns no traced socket. */
	TASK_OTHER,
	/* A thread that has used a traced socket: its marks are kept while it sleeps. */
	TASK_USER,
	/* Another thread of such a process. */
	TASK_SIBLING,
	TASK_KERNEL,
	/* mpwatch itself, and idling. */
	TASK_SELF,
	TASK_IDLE,
};

/* Whose time it is. */
struct beneficiary {
	/* Cookie of the socket; 0: none, the account is all there is. Never reused, so a slot that changed hands is noticed. */
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
	/* Time from before the task last slept that nobody has claimed yet; in MPW_ACCOUNT_PENDING meanwhile. */
	__u64 carried;
	/* To whom the time since the last mark goes if nobody claims it. */
	struct beneficiary current;
	__u64 accounts[MPW_ACCOUNTS];
};

struct cpu_ledger {
	__u64 since_ns;
	/* Time used by device interrupts, all told, and when the one at hand began (0: none does). */
	__u64 hard_ns;
	__u64 hard_since;
	/* Likewise of softirqs, on their clock. */
	__u64 soft_ns;
	__u64 soft_since;
	struct level process;
	struct level softirq;
	/* enum task_kind of the task at hand, and whether it is in a system call */
	__u8 kind;
	__u8 in_syscall;
	/* enum mpw_cpu_class of what the softirq at hand does for a socket */
	__u8 soft_class;
	__u8 _reserved[5];
	/* Address and function of the work item at hand, and the function that works for MPTCP sockets, once it is known. */
	__u64 work;
	__u64 work_function;
	__u64 mptcp_worker;
};

/* Per CPU; nothing in it ever belongs to a flow. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_ledger);
} ledger SEC(".maps") __weak;

/* A thread's marks while it does not run. Freed with the task. */
struct thread_marks {
	__u64 carried;
	struct beneficiary current;
	__u64 in_syscall;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_marks);
} threads SEC(".maps") __weak;

/*
 * What each socket has cost. Not in its storage, because a mark must be able to charge the socket of the mark before it, and of a
 * socket that is not at hand no program can find the storage. A slot is taken at the first charge and given back with the finals.
 * Slot 0 is nobody's: its first figure counts the slots that were ever taken.
 */
struct cost {
	__u64 tag;
	__u64 ns[MPW_CPU_CLASSES];
	__u64 _reserved[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cost);
} costs SEC(".maps") __weak;

/* Slots that were given back. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} free_slots SEC(".maps") __weak;

/* For a socket when there was no slot left: its cost is not known. */
#define NO_SLOT (~0u)

static __always_inline struct cpu_ledger *this_cpu(void)
{
	__u32 zero = 0;
	struct cpu_ledger *cpu = bpf_map_lookup_elem(&ledger, &zero);

	return cpu && cpu->since_ns ? cpu : NULL;
}

/*
 * The time must be read before what the levels above have used: an interrupt in between then makes the clock late, which the next
 * mark makes up for, and not early, which nothing would.
 */
static __always_inline __u64 softirq_clock(struct cpu_ledger *cpu)
{
	__u64 now = bpf_ktime_get_ns();

	barrier();
	return now - cpu->hard_ns;
}

static __always_inline __u64 process_clock(struct cpu_ledger *cpu)
{
	__u64 now = bpf_ktime_get_ns();

	barrier();
	return now - cpu->hard_ns - cpu->soft_ns;
}

static __always_inline bool in_softirq(struct cpu_ledger *cpu)
{
	return cpu->soft_since;
}

/* Several CPUs may work for one socket at a time. False: the slot has changed hands, the socket is gone. */
static __always_inline bool bill(const struct beneficiary *to, __u64 amount)
{
	struct cost *cost = bpf_map_lookup_elem(&costs, &to->slot);

	if (!cost || cost->tag != to->tag || to->class >= MPW_CPU_CLASSES)
		return false;
	__sync_fetch_and_add(&cost->ns[to->class], amount);
	return true;
}

/* Gives the time since the last mark to somebody. */
static __noinline int charge(struct level *level, __u64 clock, const struct beneficiary *to)
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
	if (to->tag && !bill(to, amount))
		account = MPW_ACCOUNT_NET_SHARED;
	level->accounts[account & (MPW_ACCOUNTS - 1)] += amount;
	return 0;
}

static __always_inline void hand_over(struct level *level, __u64 clock, __u8 account)
{
	charge(level, clock, &level->current);
	level->current = (struct beneficiary){.account = account};
}

/*
 * A thread that uses a traced socket for the first time. From now on its process's other threads count as that, too; but of mpwatch
 * itself, whose demo and selftest run traffic of their own, only the thread does.
 */
static __noinline int mark_thread(struct cpu_ledger *cpu)
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

/* Takes a slot. NO_SLOT: there is none left. */
static __noinline __u32 take_slot(__u64 tag)
{
	struct cost *head, *cost;
	__u32 slot = 0;

	head = bpf_map_lookup_elem(&costs, &slot);
	if (!head)
		return NO_SLOT;
	if (bpf_map_pop_elem(&free_slots, &slot)) {
		slot = __sync_fetch_and_add(&head->ns[0], 1) + 1;
		if (slot >= settings.cost_slots) {
			__sync_fetch_and_add(&head->ns[0], -1);
			count(MPW_COUNT_COSTS_FULL, 1);
			return NO_SLOT;
		}
	}
	cost = bpf_map_lookup_elem(&costs, &slot);
	if (!cost)
		return NO_SLOT;
	__builtin_memset(cost->ns, 0, sizeof(cost->ns));
	cost->tag = tag;
	return slot;
}

static __always_inline void give_back_slot(__u32 *slot)
{
	__u32 mine = *slot;
	struct cost *cost;

	*slot = 0;
	if (!mine || mine == NO_SLOT)
		return;
	cost = bpf_map_lookup_elem(&costs, &mine);
	if (!cost)
		return;
	cost->tag = 0;
	bpf_map_push_elem(&free_slots, &mine, BPF_ANY);
}

/* The slot of a socket, whose storage has it at `place`. Two CPUs may look for it at a time. */
static __always_inline __u32 slot_of(__u32 *place, __u64 tag)
{
	__u32 mine, theirs;

	if (*place)
		return *place;
	mine = take_slot(tag);
	theirs = __sync_val_compare_and_swap(place, 0, mine);
	if (!theirs)
		return mine;
	give_back_slot(&mine);
	return theirs;
}

/* False: not known. */
static __always_inline bool read_cost(__u64 ns[MPW_CPU_CLASSES], __u32 slot)
{
	struct cost *cost;

	if (!settings.ledger || slot == NO_SLOT)
		return false;
	cost = slot ? bpf_map_lookup_elem(&costs, &slot) : NULL;
	if (cost)
		__builtin_memcpy(ns, cost->ns, sizeof(cost->ns));
	return true;
}

/*
 * This CPU works for this socket: it has since the last mark, and goes on to until the next. `slot` is the place where the
 * socket's storage keeps its slot.
 */
static __noinline int claim(__u32 *slot, __u64 tag)
{
	struct cpu_ledger *cpu = this_cpu();
	struct beneficiary to = {.tag = tag, .account = MPW_ACCOUNT_FLOW};
	struct level *level;
	__u64 clock;

	if (!cpu)
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
		/* Until now its calls were not marked: nothing tells when this one began. */
		if (cpu->kind == TASK_OTHER || cpu->kind == TASK_SELF)
			charge(level, clock, &level->current);
		if (cpu->kind != TASK_USER && cpu->kind != TASK_KERNEL)
			mark_thread(cpu);
	}
	to.slot = slot_of(slot, tag);
	if (to.slot == NO_SLOT)
		return 0;
	charge(level, clock, &to);
	level->current = to;
	return 0;
}

/* Subflows and connections that have been told of as ended take no new slot: nobody would give it back. */
static __always_inline void claim_for_subflow(struct subflow_state *state)
{
	if (settings.ledger && state->cookie && !state->reported)
		claim(&state->cost, state->cookie);
}

static __always_inline void claim_for_connection(struct connection_state *state)
{
	if (settings.ledger && state->cookie && !state->closed_ns)
		claim(&state->cost, state->cookie);
}

/* The work item at hand is that of an MPTCP socket: so is every other one with the same function. */
static __always_inline void learn_worker(struct mptcp_sock *msk)
{
	struct cpu_ledger *cpu;

	if (!settings.ledger)
		return;
	cpu = this_cpu();
	if (cpu && cpu->work && cpu->work == (__u64)&msk->work)
		cpu->mptcp_worker = cpu->work_function;
}

/* A received segment of a subflow. In a system call (of a backlog) the time is the call's. */
static __always_inline void claim_for_segment(struct subflow_state *state)
{
	struct cpu_ledger *cpu;

	if (!settings.ledger)
		return;
	cpu = this_cpu();
	if (cpu && (in_softirq(cpu) || cpu->kind == TASK_KERNEL))
		claim_for_subflow(state);
}

/* A received segment of a TCP connection that is not traced. */
static __always_inline void claim_for_others(void)
{
	struct cpu_ledger *cpu;

	if (!settings.ledger)
		return;
	cpu = this_cpu();
	if (!cpu || !in_softirq(cpu))
		return;
	cpu->softirq.current = (struct beneficiary){.account = MPW_ACCOUNT_OTHER};
	hand_over(&cpu->softirq, softirq_clock(cpu), MPW_ACCOUNT_OTHER);
}

#endif
