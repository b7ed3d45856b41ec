/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paths of control groups. A job may end and its group be removed before user space can search for the group's directory. So the programs
 * read the path from the kernel, which keeps the group and its name as long as the socket exists.
 */
#ifndef MPWATCH_CGROUP_BPF_H
#define MPWATCH_CGROUP_BPF_H

#include "kernel.bpf.h"

/*
 * Sends the path of a control group, given the address of its kernfs node, unless it was sent in the last minute. A global function: the
 * verifier checks it once per program, not once per call.
 */
int report_cgroup(__u64 address);

#endif
