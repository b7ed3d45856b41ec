/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paths of control groups. A job may end and its group be removed before user space can search for the group's directory. So the path comes
 * from the kernel, where the group and its name exist as long as the socket.
 */
#ifndef MPWATCH_CGROUP_BPF_H
#define MPWATCH_CGROUP_BPF_H

#include "kernel.bpf.h"

/*
 * Sends the path of a control group, given the address of its kernfs node, unless it was sent before. A global function: the verifier
 * checks it once per program, not once per call.
 */
int report_cgroup(__u64 address);

#endif
