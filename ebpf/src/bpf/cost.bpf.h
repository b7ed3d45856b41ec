/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of the CPU time of each socket. Its slots are taken at the first charge, and freed with the final record. */
#ifndef MPWATCH_COST_BPF_H
#define MPWATCH_COST_BPF_H

#include "kernel.bpf.h"
#include "maps.bpf.h"

/* CPU time of each socket. Not in its storage: a mark charges the socket of the previous mark, to which it has no pointer. A slot is taken
 * at the first charge and freed with the final record. No socket has slot 0: its first value counts the slots used so far. */
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

struct { /* slots that were freed */
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} free_slots SEC(".maps") __weak;

/* For a socket when no slot was left: its CPU time is unknown. */
#define NO_SLOT (~0u)

/* Takes a slot. NO_SLOT: none is left. */
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

static __always_inline void free_slot(__u32 *slot)
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

/* The slot of a socket, which is stored at `stored`. Two CPUs may ask for it at the same time. */
static __always_inline __u32 slot_of(__u32 *stored, __u64 tag)
{
	__u32 mine, theirs;

	if (*stored)
		return *stored;
	mine = take_slot(tag);
	theirs = __sync_val_compare_and_swap(stored, 0, mine);
	if (!theirs)
		return mine;
	free_slot(&mine);
	return theirs;
}

/* False: unknown. */
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

#endif
