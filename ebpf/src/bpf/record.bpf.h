/* SPDX-License-Identifier: GPL-2.0-only */
/* Fills records from live sockets, for tracepoints (final records) and iterators (snapshots), so that both have the same meaning. */
#ifndef MPWATCH_RECORD_BPF_H
#define MPWATCH_RECORD_BPF_H

#include "cgroup.bpf.h"
#include "compat.bpf.h"
#include "handshake.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "payload.bpf.h"

/* Records hold IPv4 addresses as v4-mapped IPv6 addresses. */
static __always_inline void map_v4(__u8 *ip, __be32 v4)
{
	ip[10] = 0xff;
	ip[11] = 0xff;
	__builtin_memcpy(ip + 12, &v4, sizeof(v4));
}

static __always_inline void read_addresses(struct mpw_address *local, struct mpw_address *remote,
					   struct inet_sock *inet)
{
	struct sock_common *skc = &inet->sk.__sk_common;

	if (READ(skc, skc_family) == AF_INET6) {
		bpf_core_read(local->ip, sizeof(local->ip), &skc->skc_v6_rcv_saddr);
		bpf_core_read(remote->ip, sizeof(remote->ip), &skc->skc_v6_daddr);
	} else {
		map_v4(local->ip, READ(skc, skc_rcv_saddr));
		map_v4(remote->ip, READ(skc, skc_daddr));
	}
	/* Not skc_num: the kernel zeroes it before the tracepoint of the change to CLOSE. */
	local->port = bpf_ntohs(READ(inet, inet_sport));
	remote->port = bpf_ntohs(READ(skc, skc_dport));
}

static __always_inline __u64 cgroup_of(struct sock *sk)
{
	struct cgroup *cgroup = READ(sk, sk_cgrp_data.cgroup);

	return READ_VIA(cgroup, kn, id);
}

static __always_inline void report_cgroup_of(struct sock *sk)
{
	struct cgroup *cgroup = READ(sk, sk_cgrp_data.cgroup);
	__u64 node = 0;

	/* The helper call yields a number. The verifier rejects a pointer to kernel memory as an argument of a global function. */
	bpf_core_read(&node, sizeof(node), &cgroup->kn);
	report_cgroup(node);
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
	note_handshake(handshake, msk);
	out->token = handshake->token;
	out->remote_token = handshake->remote_token;
	out->cookie = READ(msk, sk.icsk_inet.sk.__sk_common.skc_cookie.counter);
	out->state = READ(msk, sk.icsk_inet.sk.__sk_common.skc_state);
	if (READ(msk, pm.server_side))
		out->flags |= MPW_MSK_SERVER_SIDE;
	if (handshake->fell_back)
		out->flags |= MPW_MSK_FALLBACK;
	out->unsent = READ(msk, write_seq) - READ(msk, snd_nxt);
	out->unacked = READ(msk, snd_nxt) - READ(msk, snd_una);
	out->window = READ(msk, wnd_end) - READ(msk, snd_una);
	out->add_addr_signaled = READ(msk, pm.add_addr_signaled);
	out->add_addr_accepted = READ(msk, pm.add_addr_accepted);
	out->removed_count = READ(msk, pm.rm_list_rx.nr);
	if (out->removed_count)
		BPF_CORE_READ_INTO(&out->removed_ids, msk, pm.rm_list_rx.ids);
	fill_announced(&out->announced, msk);
	return 0;
}

/*
 * Payload sent, from sequence numbers: the kernel's bytes_sent counts a segment again each time a queue of this host refuses it. An active
 * open adds one to bytes_acked for its SYN.
 */
static __always_inline __u64 payload_sent(struct tcp_sock *tp, __u32 flags)
{
	__u64 sent = tp->bytes_acked + (tp->snd_nxt - tp->snd_una);
	__u32 opened = flags & (MPW_SF_SEEN_OPEN | MPW_SF_ASKED_MPTCP | MPW_SF_ASKED_JOIN);

	if (sent && opened && !(flags & MPW_SF_PASSIVE))
		sent--;
	if (sent && flags & MPW_SF_FIN_QUEUED && tp->snd_nxt == tp->write_seq)
		sent--;
	return sent;
}

/* The kernel counts a FIN as one byte. After a disconnect it is unknown whether a FIN arrived. */
static __always_inline __u64 payload_received(struct tcp_sock *tp)
{
	bool fin = tp->inet_conn.icsk_inet.sk.__sk_common.skc_flags >> SOCK_DONE & 1;

	return tp->bytes_received && fin ? tp->bytes_received - 1 : tp->bytes_received;
}

static __noinline int fill_tcp(struct mpw_tcp *out, struct tcp_sock *tp, __u32 flags)
{
	out->payload_sent = payload_sent(tp, flags);
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
	out->snd_cwnd = tp->snd_cwnd;
	out->delivered = tp->delivered;
	out->rate_delivered = tp->rate_delivered;
	out->rate_interval_us = tp->rate_interval_us;
	out->mss = tp->mss_cache;
	out->segs_out = tp->segs_out;
	out->segs_in = tp->segs_in;
	out->data_segs_out = tp->data_segs_out;
	out->data_segs_in = tp->data_segs_in;
	if (tcp_counts_rto())
		out->total_rto = tp->total_rto;
	for (int i = 0; i < 3; i++)
		out->chrono_ns[i] = (__u64)tp->chrono_stat[i] * settings.tick_ns;
	return 0;
}

/* Maximum number of interfaces searched in one of the 256 lists of a namespace. */
#define MAX_INTERFACES_IN_LIST 16

/* Reads the name of the interface with an index. The socket has no pointer to the interface through which segments arrive. */
static __noinline int read_interface_name(__u8 *name, struct net *net, int ifindex)
{
	struct hlist_head *lists = READ(net, dev_index_head);
	struct hlist_node *node = READ(&lists[ifindex & 255], first);
	struct net_device *dev;

	for (int i = 0; i < MAX_INTERFACES_IN_LIST && node; i++) {
		dev = (void *)node - bpf_core_field_offset(struct net_device, index_hlist);
		if (READ(dev, ifindex) == ifindex)
			return BPF_CORE_READ_INTO((__u8(*)[MPW_NAME_LEN])name, dev, name);
		node = READ(node, next);
	}
	return 0;
}

/* Reads the interface of the cached route, which a closing socket drops early, and the interface through which the last segments arrived. */
static __always_inline void read_interfaces(struct mpw_observed *observed, struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct net_device *dev = READ_VIA(sk, sk_dst_cache, dev);
	int ifindex = dev ? READ(dev, ifindex) : 0, incoming = READ(sk, sk_rx_dst_ifindex);

	/* When an interface disappears, its routes lead to the blackhole device, which has no index. */
	if (ifindex) {
		observed->ifindex = ifindex;
		BPF_CORE_READ_INTO(&observed->ifname, dev, name);
	}
	if (incoming && incoming == observed->ifindex)
		__builtin_memcpy(observed->incoming_ifname, observed->ifname, MPW_NAME_LEN);
	else if (incoming)
		read_interface_name(observed->incoming_ifname, READ(sk, __sk_common.skc_net.net),
				    incoming);
}

#define CONTEXT_FLAGS                                                                     \
	(MPW_SF_MP_CAPABLE | MPW_SF_MP_JOIN | MPW_SF_ASKED_JOIN | MPW_SF_BACKUP_BY_PEER | \
	 MPW_SF_BACKUP_BY_US | MPW_SF_STALE | MPW_SF_FULLY_ESTABLISHED)

static __noinline int read_context(struct mpw_observed *observed, struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow = subflow_of(tp);
	__u32 flags = 0;

	if (!subflow)
		return 0;
	flags |= READ_BITS(subflow, mp_capable) ? MPW_SF_MP_CAPABLE : 0;
	flags |= READ_BITS(subflow, mp_join) ? MPW_SF_MP_JOIN : 0;
	flags |= READ_BITS(subflow, request_join) ? MPW_SF_ASKED_JOIN : 0;
	flags |= READ_BITS(subflow, backup) ? MPW_SF_BACKUP_BY_PEER : 0;
	flags |= READ_BITS(subflow, request_bkup) ? MPW_SF_BACKUP_BY_US : 0;
	flags |= READ_BITS(subflow, stale) ? MPW_SF_STALE : 0;
	flags |= READ_BITS(subflow, fully_established) ? MPW_SF_FULLY_ESTABLISHED : 0;
	observed->flags = (observed->flags & ~CONTEXT_FLAGS) | flags;
	observed->local.id = subflow_local_id(subflow);
	observed->remote.id = READ(subflow, remote_id);
	observed->reset_reason = READ_BITS(subflow, reset_reason);
	return 0;
}

/* Boot-clock time of a timer tick. Conversions of one tick differ by less than a tick, so the earlier result `known` is kept if it is close. */
static __always_inline __u64 time_of_tick(__u64 known, __u32 tick, __u64 now)
{
	__u64 at = now - (__u64)((__u32)bpf_jiffies64() - tick) * settings.tick_ns;
	__u64 error = at > known ? at - known : known - at;

	return error < 2 * settings.tick_ns ? known : at;
}

/* Reads data in flight, window and timers. User space derives the progress of the subflow from them (progress.rs). */
static __noinline int read_waiting(struct mpw_observed *observed, struct tcp_sock *tp)
{
	__u64 now = bpf_ktime_get_boot_ns();

	observed->packets_out = tp->packets_out;
	observed->snd_wnd = tp->snd_wnd;
	observed->backoff = tp->inet_conn.icsk_backoff;
	observed->probes = tp->inet_conn.icsk_probes_out;
	observed->ack_ns = tp->rcv_tstamp ? time_of_tick(observed->ack_ns, tp->rcv_tstamp, now) : 0;
	observed->chrono_type = READ_BITS(tp, chrono_type);
	observed->busy_ns =
		observed->chrono_type ? time_of_tick(observed->busy_ns, tp->chrono_start, now) : 0;
	return 0;
}

/* Saves the fields that the kernel clears when a socket closes or is reused: addresses, ids, interface. Does nothing after the close. */
static __noinline int refresh(struct mpw_observed *observed, struct tcp_sock *tp)
{
	if (observed->closed_ns)
		return 0;
	read_addresses(&observed->local, &observed->remote, &tp->inet_conn.icsk_inet);
	read_interfaces(observed, tp);
	if (tp->inet_conn.icsk_inet.sk.__sk_common.skc_flags >> SOCK_DONE & 1)
		observed->flags |= MPW_SF_FIN_RECEIVED;
	read_waiting(observed, tp);
	if (observed->flags & MPW_SF_MPTCP)
		read_context(observed, tp);
	return 0;
}

/* Fills the part of a record that snapshot.bpf.c hashes to detect a change; complete_subflow() fills the rest. */
static __noinline int begin_subflow(struct mpw_subflow *out, struct subflow_state *state,
				    struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct mptcp_sock *msk;

	__builtin_memset(out, 0, offsetof(struct mpw_subflow, rtt_histogram));
	if (!tp)
		return 0;
	refresh(&state->observed, tp);
	out->observed = state->observed;
	if (read_cost(out->cpu_ns, state->cost_slot))
		out->observed.flags |= MPW_SF_HAS_CPU;
	out->kind = MPW_RECORD_SUBFLOW;
	out->at_ns = bpf_ktime_get_boot_ns();
	out->netns_cookie = READ_VIA(sk, __sk_common.skc_net.net, net_cookie);
	out->netns_inode = READ_VIA(sk, __sk_common.skc_net.net, ns.inum);
	out->state = sk->__sk_common.skc_state;
	out->tcp_header_bytes = tp->tcp_header_len;
	if (tcp_counts_rto())
		out->observed.flags |= MPW_SF_HAS_TOTAL_RTO;
	if (state->observed.closed_ns)
		out->tcp = state->final;
	else
		fill_tcp(&out->tcp, tp, state->observed.flags);
	msk = msk_of_subflow(&state->observed, tp);
	out->cgroup_id = cgroup_of(msk ? &msk->sk.icsk_inet.sk : sk);
	return 0;
}

/* Whether the MPTCP socket still has the connection of this handshake. False: the socket has connected again. */
static __always_inline bool is_same_connection(struct handshake *known, struct mptcp_sock *msk)
{
	__u32 token = READ(msk, token);

	return !token || !known->token || token == known->token;
}

/* For plain TCP, and for a subflow that has left its connection: no process accepted it, or the MPTCP socket connected again. */
static __always_inline void restore_msk(struct mpw_msk *out, struct handshake *known)
{
	out->token = known->token;
	out->remote_token = known->remote_token;
	out->cookie = known->cookie;
	out->flags = MPW_MSK_BYTES_UNKNOWN;
	if (known->fell_back)
		out->flags |= MPW_MSK_FALLBACK;
}

/*
 * Fills the histogram, the congestion control and the connection, and reports the control group's path. The hash excludes the congestion
 * control, so a new congestion control is reported with the next change of a counter.
 */
static __noinline int complete_subflow(struct mpw_subflow *out, struct subflow_state *state,
				       struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct mptcp_sock *msk;

	bpf_probe_read_kernel(out->rtt_histogram, sizeof(out->rtt_histogram), state->rtt_histogram);
	if (!tp)
		return 0;
	bpf_core_read(&out->congestion, MPW_NAME_LEN, &tp->inet_conn.icsk_ca_ops->name);
	msk = msk_of_subflow(&state->observed, tp);
	if (msk && is_same_connection(&state->handshake, msk)) {
		fill_msk(&out->msk, &state->handshake, msk);
		read_payload_for_subflow(&out->msk, msk);
	} else {
		restore_msk(&out->msk, &state->handshake);
	}
	report_cgroup_of(msk ? &msk->sk.icsk_inet.sk : sk);
	return 0;
}

/* Starts to trace an open socket that is older than the agent, or whose opening was missed because the event interrupted the same program. */
static __always_inline struct subflow_state *adopt_subflow(struct tcp_sock *tp)
{
	struct subflow_state *state = create_storage(&subflows, tp);

	if (!state || state->observed.first_seen_ns)
		return state;
	state->observed.first_seen_ns = bpf_ktime_get_boot_ns();
	state->observed.cookie = bpf_get_socket_cookie(tp);
	state->last_total_retrans = tp->total_retrans;
	state->observed.bytes_resent = tp->bytes_retrans;
	if (tp->is_mptcp)
		state->observed.flags |= MPW_SF_MPTCP;
	if (tp->is_mptcp && READ_BITS(subflow_of(tp), request_mptcp))
		state->observed.flags |= MPW_SF_ASKED_MPTCP;
	if (has_queued_fin(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state))
		state->observed.flags |= MPW_SF_FIN_QUEUED;
	return state;
}

static __noinline int fill_connection(struct mpw_connection *out,
				      struct connection_state *connection, struct sock *sk)
{
	struct mptcp_sock *msk = (struct mptcp_sock *)sk;

	__builtin_memset(out, 0, sizeof(*out));
	out->kind = MPW_RECORD_CONNECTION;
	out->at_ns = bpf_ktime_get_boot_ns();
	out->netns_cookie = READ_VIA(sk, __sk_common.skc_net.net, net_cookie);
	out->netns_inode = READ_VIA(sk, __sk_common.skc_net.net, ns.inum);
	out->cgroup_id = cgroup_of(sk);
	out->opened_ns = connection->opened_ns;
	out->first_seen_ns = connection->first_seen_ns;
	out->closed_ns = connection->closed_ns;
	out->owner = connection->owner;
	read_addresses(&out->local, &out->remote, &msk->sk.icsk_inet);
	fill_msk(&out->msk, &connection->handshake, msk);
	out->msk.cookie = connection->cookie;
	if (read_cost(out->cpu_ns, connection->cost_slot))
		out->msk.flags |= MPW_MSK_HAS_CPU;
	if (connection->lost)
		out->msk.flags |= MPW_MSK_BYTES_UNKNOWN | MPW_MSK_BYTES_APART;
	else
		read_payload(&out->msk, connection, msk);
	return 0;
}

#endif
