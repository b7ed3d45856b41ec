// SPDX-License-Identifier: GPL-2.0-only
/* Reads the cookie of a network namespace through an open file descriptor. Unlike entering the namespace, this needs no CAP_SYS_ADMIN. */
#include "kernel.bpf.h"

/*
 * User space runs this program. Arguments: one of its descriptors, which refers to a network namespace (NS_GET_NSTYPE), and 0 or 1 for the low or
 * high half of the cookie. Returns that half.
 */
SEC("raw_tp")
int netns_cookie(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	__u64 descriptor = ctx->args[0], cookie;
	struct file *file;
	struct net *net;

	if (descriptor >= BPF_CORE_READ(table, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), files + descriptor))
		return 0;
	/* The kernel's get_proc_ns(). */
	net = BPF_CORE_READ(file, f_inode, i_private) - bpf_core_field_offset(struct net, ns);
	cookie = BPF_CORE_READ(net, net_cookie);
	return ctx->args[1] ? cookie >> 32 : cookie;
}
