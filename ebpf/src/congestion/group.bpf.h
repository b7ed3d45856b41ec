/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State that the subflows of a connection share: a group per connection with one member per subflow, which only that subflow writes. Locks
 * are not needed: a value that is one ACK old does no harm. All memory is bounded. A lost group or place is created again at the next ACK.
 */
#ifndef MPWATCH_GROUP_BPF_H
#define MPWATCH_GROUP_BPF_H

#include "../bpf/kernel.bpf.h"
#include "arithmetic.bpf.h"

/* The first subflow and 8 others (MPTCP_SUBFLOWS_MAX in net/mptcp/protocol.h is 8). */
#define MAX_MEMBERS 9
/* Maximum number of connections with mptcpd, in all namespaces together. Beyond that, the least recently used group is replaced. */
#define MAX_GROUPS 16384
/* A subflow without an ACK of data for this time plus two round trips does not count as a path of its connection. */
#define ACTIVE_NS 1000000000ULL

/* Tokens are unique within a namespace. */
struct group_key {
	__u64 netns_cookie;
	__u32 token;
	__u32 _reserved;
};

struct member {
	/* Number of the subflow. 0: this place is free. */
	__u64 id;
	/* Time of the last ACK of data (CLOCK_MONOTONIC). */
	__u64 acked_ns;
	__u64 rate; /* see RATE_SHIFT */
	__u32 rtt_us;
	__u32 _reserved;
};

struct group {
	struct member members[MAX_MEMBERS];
};

/* Sum of rates and lowest RTT of the other subflows of a connection. */
struct others {
	__u64 rate;
	__u32 min_rtt_us;
};

/* A subflow's own state, in its socket (icsk_ca_priv). */
struct subflow_control {
	struct group_key key;
	/* Increase of less than a segment that is not in the window yet, in 2^-40 segments. */
	__u64 credit;
	/* 0: the subflow has not joined its group yet. */
	__u64 id;
	__u32 place;
	__u32 _reserved;
};

/* LRU, so that an entry that was never removed (because a subflow joined during its removal) does not stay for ever. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_GROUPS);
	__type(key, struct group_key);
	__type(value, struct group);
} groups SEC(".maps");

static __u64 last_id;

static __always_inline bool is_active(const struct member *member, __u64 now)
{
	__s64 age = now - member->acked_ns;

	return member->id && age < (__s64)(ACTIVE_NS + 2000ULL * member->rtt_us);
}

static __always_inline struct group *find_or_create_group(const struct group_key *key)
{
	static const struct group empty;
	struct group *group = bpf_map_lookup_elem(&groups, key);

	if (group)
		return group;
	bpf_map_update_elem(&groups, key, &empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&groups, key);
}

/* Claims a free place, or the place of an inactive subflow, which joins again at its next ACK. NULL: all are in use. */
static __always_inline struct member *join_group(struct group *group, struct subflow_control *own,
						 __u64 now)
{
	int place;

	if (!own->id)
		own->id = __sync_fetch_and_add(&last_id, 1) + 1;
	for (place = 0; place < MAX_MEMBERS; place++) {
		struct member *member = &group->members[place];
		__u64 seen = member->id;

		if (seen && is_active(member, now))
			continue;
		if (__sync_val_compare_and_swap(&member->id, seen, own->id) == seen) {
			own->place = place;
			return member;
		}
	}
	return NULL;
}

/* Publishes a subflow's rate and RTT. Returns its place. MAX_MEMBERS: the subflow has no place, so the other subflows ignore it. */
static __always_inline __u32 publish(struct group *group, struct subflow_control *own, __u32 cwnd,
				     __u32 rtt_us, __u64 now)
{
	__u32 place = own->place;
	struct member *member;

	if (place >= MAX_MEMBERS)
		place = 0;
	member = &group->members[place];
	if (!own->id || member->id != own->id) {
		member = join_group(group, own, now);
		if (!member)
			return MAX_MEMBERS;
	}
	member->rate = path_rate(cwnd, rtt_us);
	member->rtt_us = rtt_us;
	member->acked_ns = now;
	return own->place;
}

/* Adds up the active subflows except the one at `own_place`. */
static __always_inline struct others sum_others(const struct group *group, __u32 own_place,
						__u32 own_rtt_us, __u64 now)
{
	struct others others = {.min_rtt_us = own_rtt_us};
	int place;

	for (place = 0; place < MAX_MEMBERS; place++) {
		const struct member *member = &group->members[place];

		if (place == own_place || !is_active(member, now))
			continue;
		others.rate += member->rate;
		if (member->rtt_us < others.min_rtt_us)
			others.min_rtt_us = member->rtt_us;
	}
	return others;
}

/*
 * Frees a subflow's place, and the group if no other subflow is active. An idle subflow creates the group again when it sends. The exchange
 * orders its write before the reads: of two subflows that leave at the same time, at least one finds that the other one has left.
 */
static __always_inline void leave(const struct subflow_control *own, __u64 now)
{
	struct group *group = bpf_map_lookup_elem(&groups, &own->key);
	__u32 place = own->place;

	if (!group || place >= MAX_MEMBERS)
		return;
	__sync_val_compare_and_swap(&group->members[place].id, own->id, 0);
	for (place = 0; place < MAX_MEMBERS; place++)
		if (is_active(&group->members[place], now))
			return;
	bpf_map_delete_elem(&groups, &own->key);
}

#endif
