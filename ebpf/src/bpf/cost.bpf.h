/* SPDX-License-Identifier: GPL-2.0-only */
/* Table of the CPU time of each socket. A slot is allocated at the first charge and freed with the final record. */
#ifndef MPWATCH_COST_BPF_H
#define MPWATCH_COST_BPF_H

#include "kernel.bpf.h"
#include "maps.bpf.h"

/*
 * CPU time of a socket. Not in socket storage, because a mark (ledger.bpf.h) may charge the socket of the previous mark without a pointer to
 * it. Slot 0 belongs to no socket: its ns[0] counts the slots used so far.
 */
struct cost {
	__u64 tag; /* cookie of the socket; 0: the slot is free */
	__u64 ns[MPW_CPU_CLASSES];
	__u64 _reserved[2];
};

MAP(costs, ARRAY, 1, __u32, struct cost);

/* Slots that were used and freed; allocated again before new slots. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} free_slots SEC(".maps") __weak;

/* No slot was left for the socket: its CPU time is unknown. */
#define NO_SLOT (~0u)

/* Allocates a slot. NO_SLOT: none is left. */
static __noinline __u32 allocate_slot(__u64 tag)
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

/* Returns the slot in `*stored`, which it allocates if there is none. If two CPUs do this at the same time, one frees its slot again. */
static __always_inline __u32 slot_of(__u32 *stored, __u64 tag)
{
	__u32 mine, theirs;

	if (*stored)
		return *stored;
	mine = allocate_slot(tag);
	theirs = __sync_val_compare_and_swap(stored, 0, mine);
	if (!theirs)
		return mine;
	free_slot(&mine);
	return theirs;
}

/* Returns false if the CPU time is unknown. */
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
