/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Filling records from live sockets. The same functions serve the finals (from tracepoints) and the samples (from the
 * iterators), so a final and a sample of one flow cannot disagree in meaning.
 */
#ifndef MPWATCH_RECORD_BPF_H
#define MPWATCH_RECORD_BPF_H

#include "compat.bpf.h"
#include "handshake.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "payload.bpf.h"

/* IPv4 addresses travel v4-mapped, so that one form serves all. */
static __always_inline void map_v4(__u8 *ip, __be32 v4)
{
	ip[10] = 0xff;
	ip[11] = 0xff;
	__builtin_memcpy(ip + 12, &v4, sizeof(v4));
}

static __always_inline void look_up_addresses(struct subflow_state *state, struct tcp_sock *tp)
{
	struct sock_common *skc = &tp->inet_conn.icsk_inet.sk.__sk_common;

	if (skc->skc_family == AF_INET6) {
		bpf_core_read(state->local.ip, sizeof(state->local.ip), &skc->skc_v6_rcv_saddr);
		bpf_core_read(state->remote.ip, sizeof(state->remote.ip), &skc->skc_v6_daddr);
	} else {
		map_v4(state->local.ip, skc->skc_rcv_saddr);
		map_v4(state->remote.ip, skc->skc_daddr);
	}
	/* Not skc_num: it is zeroed before a socket's change to CLOSE is traced. */
	state->local.port = bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport);
	state->remote.port = bpf_ntohs(skc->skc_dport);
}

static __always_inline __u64 cgroup_of(struct sock *sk)
{
	struct cgroup *cgroup = READ(sk, sk_cgrp_data.cgroup);

	return READ_VIA(cgroup, kn, id);
}

static __always_inline void fill_announced(struct mpw_address *out, struct mptcp_sock *msk)
{
	unsigned short family = READ(msk, pm.remote.family);

	if (family == AF_INET6)
		BPF_CORE_READ_INTO(&out->ip, msk, pm.remote.addr6);
	else if (family == AF_INET)
		map_v4(out->ip, READ(msk, pm.remote.addr.s_addr));
	else
		return;
	out->port = bpf_ntohs(READ(msk, pm.remote.port));
	out->id = READ(msk, pm.remote.id);
}

static __noinline int fill_msk(struct mpw_msk *out, struct handshake *handshake,
			       struct mptcp_sock *msk)
{
	learn_handshake(handshake, msk);
	out->token = handshake->token;
	out->remote_token = handshake->remote_token;
	out->cookie = READ(msk, sk.icsk_inet.sk.__sk_common.skc_cookie.counter);
	out->state = READ(msk, sk.icsk_inet.sk.__sk_common.skc_state);
	if (READ(msk, pm.server_side))
		out->flags |= MPW_MSK_SERVER_SIDE;
	if (msk_fell_back(msk))
		out->flags |= MPW_MSK_FALLBACK;
	out->add_addr_signaled = READ(msk, pm.add_addr_signaled);
	out->add_addr_accepted = READ(msk, pm.add_addr_accepted);
	out->removed_count = READ(msk, pm.rm_list_rx.nr);
	if (out->removed_count)
		BPF_CORE_READ_INTO(&out->removed_ids, msk, pm.rm_list_rx.ids);
	fill_announced(&out->announced, msk);
	read_counters(out, msk);
	return 0;
}

static __noinline int fill_tcp(struct mpw_tcp *out, struct tcp_sock *tp)
{
	out->bytes_sent = tp->bytes_sent;
	out->bytes_acked = tp->bytes_acked;
	out->bytes_received = tp->bytes_received;
	out->bytes_retrans = tp->bytes_retrans;
	out->srtt_us = tp->srtt_us >> 3;
	out->rttvar_us = tp->mdev_us >> 2;
	out->rtt_min_us = tp->rtt_min.s[0].v;
	out->rtt_us = tp->rack.rtt_us;
	out->total_retrans = tp->total_retrans;
	out->lost = tp->lost;
	out->lost_out = tp->lost_out;
	out->sacked_out = tp->sacked_out;
	out->retrans_out = tp->retrans_out;
	out->packets_out = tp->packets_out;
	out->snd_cwnd = tp->snd_cwnd;
	out->snd_ssthresh = tp->snd_ssthresh;
	out->delivered = tp->delivered;
	out->delivered_ce = tp->delivered_ce;
	out->rate_delivered = tp->rate_delivered;
	out->rate_interval_us = tp->rate_interval_us;
	out->mss = tp->mss_cache;
	out->segs_out = tp->segs_out;
	out->segs_in = tp->segs_in;
	out->data_segs_out = tp->data_segs_out;
	out->data_segs_in = tp->data_segs_in;
	if (tcp_counts_rto())
		out->total_rto = tp->total_rto;
	out->ca_state = READ_BITS(&tp->inet_conn, icsk_ca_state);
	out->backoff = tp->inet_conn.icsk_backoff;
	return 0;
}

/* The interface of the cached route; remembered, because a dying socket drops its route first. */
static __always_inline void look_up_interface(struct subflow_state *state, struct tcp_sock *tp)
{
	struct net_device *dev = READ_VIA(tp, inet_conn.icsk_inet.sk.sk_dst_cache, dev);
	int ifindex = dev ? READ(dev, ifindex) : 0;

	/* A route whose interface has gone ends in a black hole, which is a device without a number. */
	if (!ifindex)
		return;
	state->ifindex = ifindex;
	BPF_CORE_READ_INTO(&state->ifname, dev, name);
}

#define CONTEXT_FLAGS                                                                       \
	(MPW_SF_MP_CAPABLE | MPW_SF_MP_JOIN | MPW_SF_BACKUP_BY_PEER | MPW_SF_BACKUP_BY_US | \
	 MPW_SF_STALE)

static __noinline int look_up_context(struct subflow_state *state, struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow = subflow_of(tp);
	__u32 flags = 0;

	if (!subflow)
		return 0;
	if (READ_BITS(subflow, mp_capable))
		flags |= MPW_SF_MP_CAPABLE;
	if (READ_BITS(subflow, mp_join))
		flags |= MPW_SF_MP_JOIN;
	if (READ_BITS(subflow, backup))
		flags |= MPW_SF_BACKUP_BY_PEER;
	if (READ_BITS(subflow, request_bkup))
		flags |= MPW_SF_BACKUP_BY_US;
	if (READ_BITS(subflow, stale))
		flags |= MPW_SF_STALE;
	state->flags = (state->flags & ~CONTEXT_FLAGS) | flags;
	state->local.id = subflow_local_id(subflow);
	state->remote.id = READ(subflow, remote_id);
	state->reset_reason = READ_BITS(subflow, reset_reason);
	return 0;
}

/*
 * Brings into `state` what the kernel forgets when a socket closes or is disconnected for reuse: ports, ids, interface.
 * Nothing to do any more once it is closed.
 */
static __noinline int look_up(struct subflow_state *state, struct tcp_sock *tp)
{
	if (state->closed_ns)
		return 0;
	look_up_addresses(state, tp);
	look_up_interface(state, tp);
	if (state->flags & MPW_SF_MPTCP)
		look_up_context(state, tp);
	return 0;
}

static __noinline int fill_from_state(struct mpw_subflow *out, struct subflow_state *state)
{
	out->flags = state->flags;
	out->cookie = state->cookie;
	out->generation = state->generation;
	out->created_ns = state->created_ns;
	out->established_ns = state->established_ns;
	out->first_seen_ns = state->first_seen_ns;
	out->closed_ns = state->closed_ns;
	out->joined_bytes = state->joined_bytes;
	out->effective_ns = state->effective_ns;
	out->effective_bytes = state->effective_bytes;
	out->sched_considered = state->sched_considered;
	out->sched_picked = state->sched_picked;
	out->progress_ns = state->progress_ns;
	out->handshake_us = state->handshake_us;
	out->stall_count = state->stall_count;
	out->retrans_fast = state->retrans_fast;
	out->retrans_timeout = state->retrans_timeout;
	out->retrans_probe = state->retrans_probe;
	out->error = state->error;
	out->reset_reason = state->reset_reason;
	out->ifindex = state->ifindex;
	out->owner = state->owner;
	out->local = state->local;
	out->remote = state->remote;
	__builtin_memcpy(out->ifname, state->ifname, sizeof(out->ifname));
	__builtin_memcpy(out->stalls, state->stalls, sizeof(out->stalls));
	if (read_cost(out->cpu_ns, state->cost))
		out->flags |= MPW_SF_HAS_CPU;
	return 0;
}

static __always_inline struct mptcp_sock *msk_behind(struct subflow_state *state, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp || !(state->flags & MPW_SF_MPTCP) || !subflow_of(tp))
		return NULL;
	return msk_of(subflow_of(tp));
}

/* What tells a subflow's own story; `complete_subflow` adds the rest. */
static __noinline int begin_subflow(struct mpw_subflow *out, struct subflow_state *state,
				    struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct mptcp_sock *msk;

	__builtin_memset(out, 0, offsetof(struct mpw_subflow, rtt_histogram));
	if (!tp)
		return 0;
	look_up(state, tp);
	fill_from_state(out, state);
	out->kind = MPW_RECORD_SUBFLOW;
	out->at_ns = bpf_ktime_get_boot_ns();
	out->netns_cookie = READ_VIA(sk, __sk_common.skc_net.net, net_cookie);
	out->netns_inode = READ_VIA(sk, __sk_common.skc_net.net, ns.inum);
	out->state = sk->__sk_common.skc_state;
	out->tcp_header_bytes = tp->tcp_header_len;
	if (tcp_counts_rto())
		out->flags |= MPW_SF_HAS_TOTAL_RTO;
	if (state->closed_ns)
		out->tcp = state->final;
	else
		fill_tcp(&out->tcp, tp);
	msk = msk_behind(state, sk);
	out->cgroup_id = cgroup_of(msk ? &msk->sk.icsk_inet.sk : sk);
	return 0;
}

/* The histogram, and how the connection is seen from here. */
static __noinline int complete_subflow(struct mpw_subflow *out, struct subflow_state *state,
				       struct sock *sk)
{
	struct mptcp_sock *msk = msk_behind(state, sk);

	bpf_probe_read_kernel(out->rtt_histogram, sizeof(out->rtt_histogram), state->rtt_histogram);
	if (msk)
		fill_msk(&out->msk, &state->handshake, msk);
	return 0;
}

/*
 * Takes in a socket whose beginning was not seen: it is older than the agent, or the event was missed (the kernel does not run a
 * program on a CPU on which it has just interrupted the same program).
 */
static __always_inline struct subflow_state *adopt_subflow(struct tcp_sock *tp)
{
	struct subflow_state *state =
		bpf_sk_storage_get(&subflows, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!state) {
		count(MPW_COUNT_STORAGE_FAILED, 1);
		return NULL;
	}
	if (state->first_seen_ns)
		return state;
	state->first_seen_ns = bpf_ktime_get_boot_ns();
	state->cookie = bpf_get_socket_cookie(tp);
	state->retrans_seen = tp->total_retrans;
	if (tp->is_mptcp)
		state->flags |= MPW_SF_MPTCP;
	return state;
}

static __noinline int fill_connection(struct mpw_connection *out, struct connection_state *state,
				      struct sock *sk)
{
	struct mptcp_sock *msk = (struct mptcp_sock *)sk;

	__builtin_memset(out, 0, sizeof(*out));
	out->kind = MPW_RECORD_CONNECTION;
	out->at_ns = bpf_ktime_get_boot_ns();
	out->netns_cookie = READ_VIA(sk, __sk_common.skc_net.net, net_cookie);
	out->netns_inode = READ_VIA(sk, __sk_common.skc_net.net, ns.inum);
	out->cgroup_id = cgroup_of(sk);
	out->opened_ns = state->opened_ns;
	out->first_seen_ns = state->first_seen_ns;
	out->closed_ns = state->closed_ns;
	out->owner = state->owner;
	fill_msk(&out->msk, &state->handshake, msk);
	out->msk.cookie = state->cookie;
	if (read_cost(out->cpu_ns, state->cost))
		out->msk.flags |= MPW_MSK_HAS_CPU;
	if (!msk_counts_bytes()) {
		out->msk.flags &= ~MPW_MSK_BYTES_UNKNOWN;
		count_by_sequence(&out->msk, state, msk);
	}
	return 0;
}

#endif
