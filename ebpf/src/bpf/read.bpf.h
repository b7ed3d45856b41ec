/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads through a pointer whose type the verifier does not track, such as the pointer to an MPTCP socket: by one load if the kernel has
 * bpf_rdonly_cast() (6.2 and later), else by a helper call. A bad address reads as 0 either way. User space sets settings.has_cast, because
 * kernels before 6.4 reject a program that checks whether a kernel function exists.
 */
#ifndef MPWATCH_READ_BPF_H
#define MPWATCH_READ_BPF_H

#include "kernel.bpf.h"
#include "mpwatch_abi.h"

/* In a section of their own, so that user space can set them without the other constants. */
extern const volatile struct mpw_settings settings;

#define CAST(pointer) bpf_core_cast(pointer, typeof(*(pointer)))

#define READ(pointer, field) \
	(settings.has_cast ? CAST(pointer)->field : BPF_CORE_READ(pointer, field))

/* Reads a field of the structure to which the pointer field `way` refers. */
#define READ_VIA(pointer, way, field) \
	(settings.has_cast ? CAST(pointer)->way->field : BPF_CORE_READ(pointer, way, field))

#define READ_BITS(pointer, field)                                         \
	(settings.has_cast ? BPF_CORE_READ_BITFIELD(CAST(pointer), field) \
			   : BPF_CORE_READ_BITFIELD_PROBED(pointer, field))

/* As the kernel's mptcp_subflow_ctx() and mptcp_sk(): return the context of a subflow's socket, and the connection of a context. */
static __always_inline struct mptcp_subflow_context *subflow_of(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_ulp_data;
}

static __always_inline struct mptcp_sock *msk_of(struct mptcp_subflow_context *subflow)
{
	return (struct mptcp_sock *)READ(subflow, conn);
}

/* NULL: plain TCP, or a subflow that has left its connection. */
static __always_inline struct mptcp_sock *msk_of_subflow(const struct mpw_observed *observed,
							 const struct tcp_sock *tp)
{
	if (!(observed->flags & MPW_SF_MPTCP) || !subflow_of(tp))
		return NULL;
	return msk_of(subflow_of(tp));
}

#endif
