/* SPDX-License-Identifier: GPL-2.0-only */
/* The process level of the CPU ledger: the running task, and the saved state of threads that do not run. */
#ifndef MPWATCH_TASK_BPF_H
#define MPWATCH_TASK_BPF_H

#include "ledger.bpf.h"

/* The task stops running. Time of an unfinished system call stays pending, because the call's socket may be unknown until the call ends. */
static __always_inline void stop_task(struct cpu_ledger *cpu, struct task_struct *prev, __u64 clock)
{
	struct level *level = &cpu->process;
	struct thread_ledger *thread;
	__s64 amount;

	if (cpu->kind != TASK_USER) {
		charge(level, clock, &level->current);
		return;
	}
	thread = bpf_task_storage_get(&threads, prev, 0, 0);
	if (!thread || !cpu->in_syscall || level->current.tag) {
		charge(level, clock, &level->current);
	} else {
		amount = clock - level->last;
		if (amount > 0) {
			level->accounts[MPW_ACCOUNT_PENDING] += amount;
			level->carried += amount;
			level->last = clock;
		}
	}
	if (!thread)
		return;
	thread->carried = level->carried;
	thread->current = level->current;
	thread->in_syscall = cpu->in_syscall;
	thread->window = cpu->window;
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
	struct thread_ledger *thread;

	if (!next->pid) {
		set_task(cpu, TASK_IDLE, MPW_ACCOUNT_IDLE);
		return;
	}
	if (next->flags & PF_KTHREAD) {
		set_task(cpu, TASK_KERNEL, MPW_ACCOUNT_OTHER);
		return;
	}
	thread = bpf_task_storage_get(&threads, next, 0, 0);
	if (thread) {
		set_task(cpu, TASK_USER, MPW_ACCOUNT_APP);
		cpu->process.carried = thread->carried;
		/* The thread stopped in an earlier window, so its saved state is outdated. Most threads wake up inside a system call. */
		if (thread->window != cpu->window) {
			cpu->in_syscall = 1;
			return;
		}
		cpu->in_syscall = thread->in_syscall;
		if (thread->current.tag)
			cpu->process.current = thread->current;
		return;
	}
	if (next->tgid == settings.self_pid) {
		set_task(cpu, TASK_SELF, MPW_ACCOUNT_SELF);
		return;
	}
	leader = next->pid == next->tgid ? NULL : next->group_leader;
	thread = leader ? bpf_task_storage_get(&threads, leader, 0, 0) : NULL;
	if (thread)
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

#endif
