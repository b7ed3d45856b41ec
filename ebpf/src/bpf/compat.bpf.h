/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between kernels 6.1 and 7.2, one function each. BTF decides, not the version, because distributions backport. */
#ifndef MPWATCH_COMPAT_BPF_H
#define MPWATCH_COMPAT_BPF_H

#include "read.bpf.h"

/*
 * MPTCP_FALLBACK_DONE is a #define, so it is not in BTF. It is bit 4 up to 6.8, and bit 2 since 6.9, which renumbered the flags. 6.9 also
 * added mptcp_sock.notsent_lowat, which is in BTF. With the wrong bit, fallbacks would be missed or wrongly reported.
 */
static __always_inline bool msk_fell_back(struct mptcp_sock *msk)
{
	int bit = bpf_core_field_exists(msk->notsent_lowat) ? 2 : 4;

	return READ(msk, flags) >> bit & 1;
}

/* Kernels before 6.5 keep no byte counters in the MPTCP socket. */
static __always_inline bool msk_counts_bytes(void)
{
	return bpf_core_field_exists(struct mptcp_sock, bytes_sent);
}

/* The local address id changed size and sign (u8, later s16 with -1 for "not set"); the bitfield macro reads both. */
static __always_inline __u8 subflow_local_id(struct mptcp_subflow_context *subflow)
{
	__s64 id = READ_BITS(subflow, local_id);

	return id < 0 ? 0 : id;
}

/* 6.7 added tcp_sock.total_rto. */
static __always_inline bool tcp_counts_rto(void)
{
	return bpf_core_field_exists(struct tcp_sock, total_rto);
}

/* Parent of a control group. NULL: it is the root. */
static __always_inline struct kernfs_node *kernfs_parent(struct kernfs_node *node)
{
	struct kernfs_node___rcu *renamed = (void *)node;

	if (bpf_core_field_exists(renamed->__parent))
		return BPF_CORE_READ(renamed, __parent);
	/* Each read follows a check of its own field, as core_check requires (src/support/core_check). */
	return bpf_core_field_exists(node->parent) ? BPF_CORE_READ(node, parent) : NULL;
}

/*
 * Linux 7.2 can preempt programs on tracepoints; 6.18 and earlier kernels cannot. From 6.10 to 6.14 the verifier rejects calls of global
 * functions while preemption is disabled; since 6.15 it accepts them. Kernels that accept them have bpf_res_spin_lock(), which 6.15 added.
 */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;
/* Defined, although it is not used: libbpf treats a weak function as missing if a parameter type is only declared. */
struct bpf_res_spin_lock {
	__u32 val;
};
extern int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym __weak;

static __always_inline void disable_preemption(void)
{
	if (bpf_ksym_exists(bpf_res_spin_lock))
		bpf_preempt_disable();
}

static __always_inline void enable_preemption(void)
{
	if (bpf_ksym_exists(bpf_res_spin_lock))
		bpf_preempt_enable();
}

/*
 * Frees a socket's storage before the kernel destroys the socket. Otherwise a snapshot can crash kernels whose storage elements have a state
 * (7.2, not 6.12): when such a kernel destroys the socket, it clears the element's pointer to the storage, possibly between the check and
 * the use of this pointer by the map's iterator. Deletion by a program keeps the pointer.
 */
static __always_inline void free_storage(void *map, struct sock *sk)
{
	if (bpf_core_field_exists(struct bpf_local_storage_elem, state))
		bpf_sk_storage_delete(map, sk);
}

/* Whether a REMOVE_ADDR list of the path manager contains `id`. */
static __always_inline bool rm_list_has(struct mptcp_rm_list *list, __u8 id)
{
	__u8 count = READ(list, nr);
	__u8 ids[MPW_RM_IDS];

	if (bpf_core_read(ids, sizeof(ids), &list->ids))
		return false;
	for (int i = 0; i < MPW_RM_IDS; i++)
		if (i < count && ids[i] == id)
			return true;
	return false;
}

#endif
