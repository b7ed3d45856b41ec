// SPDX-License-Identifier: GPL-2.0-only
/* Reads the path of a control group from the kernel's tree. */
#include "cgroup.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"

/* Minimum interval between two reports of one path, in nanoseconds: user space keeps only names that were used recently. */
#define REPEAT_PATH_NS 60000000000ull

/* When the path of each control group was last sent. The key is the group's id. */
MAP(named_cgroups, LRU_HASH, 8192, __u64, __u64);

/* A path that fits into neither ring does not count as a lost record, because it is sent with a later record. */
static __always_inline struct mpw_cgroup *reserve_path(void)
{
	struct mpw_cgroup *record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);

	return record ?: bpf_ringbuf_reserve(&overflow, sizeof(*record), 0);
}

int report_cgroup(__u64 address)
{
	struct kernfs_node *node = (struct kernfs_node *)address;
	__u64 id = BPF_CORE_READ(node, id);
	struct kernfs_node *parent;
	struct mpw_cgroup *record;
	__u64 now = bpf_ktime_get_boot_ns();
	__u64 *sent;
	int level;

	sent = id ? bpf_map_lookup_elem(&named_cgroups, &id) : NULL;
	if (!id || (sent && now - *sent < REPEAT_PATH_NS))
		return 0;
	record = reserve_path();
	if (!record)
		return 0;
	record->kind = MPW_RECORD_CGROUP;
	record->id = id;
	parent = kernfs_parent(node);
	for (level = 0; level < MPW_CGROUP_LEVELS && parent; level++) {
		if (bpf_probe_read_kernel_str(record->names[level], MPW_CGROUP_NAME,
					      BPF_CORE_READ(node, name)) < 0) {
			bpf_ringbuf_discard(record, 0);
			return 0;
		}
		node = parent;
		parent = kernfs_parent(node);
	}
	record->levels = level;
	record->is_cut = !!parent;
	bpf_ringbuf_submit(record, 0);
	bpf_map_update_elem(&named_cgroups, &id, &now, BPF_ANY);
	return 0;
}
