/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paths of control groups. A job may end, and its group be removed, before user space can look for the group's directory, so the path
 * comes from the kernel: a socket keeps its group, and the group its name, for as long as the socket exists.
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
