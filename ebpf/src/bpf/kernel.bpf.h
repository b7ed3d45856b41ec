/* SPDX-License-Identifier: GPL-2.0-only */
/* Every kernel field that the programs read. CO-RE sets the offsets; only names and types matter. Kernel differences: compat.bpf.h. */
#ifndef MPWATCH_KERNEL_BPF_H
#define MPWATCH_KERNEL_BPF_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define AF_INET	      2
#define AF_INET6      10
#define IPPROTO_TCP   6
#define IPPROTO_MPTCP 262
#define ETIMEDOUT     110
#define PF_KTHREAD    0x00200000
#define SHUTDOWN_MASK 3

/* include/net/tcp_states.h */
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
};

/* include/net/sock.h: enum sock_flags */
enum {
	SOCK_DEAD = 0,
	SOCK_DONE = 1,
};

/* include/net/tcp.h: enum tcp_ca_state; include/net/inet_connection_sock.h: icsk_pending */
enum {
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
	ICSK_TIME_LOSS_PROBE = 5,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in_addr {
	__be32 s_addr;
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

typedef struct {
	long long counter;
} atomic64_t;

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	__u64 net_cookie;
	struct ns_common ns;
	struct hlist_head *dev_index_head; /* 256 lists */
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
	unsigned long skc_flags;
};

struct kernfs_node {
	__u64 id;
	const char *name;
	struct kernfs_node *parent; /* up to 6.14 */
};

/* 6.15 renamed kernfs_node.parent. */
struct kernfs_node___rcu {
	struct kernfs_node *__parent;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct net_device {
	char name[16];
	int ifindex;
	struct hlist_node index_hlist;
};

struct dst_entry {
	struct net_device *dev;
};

/* `owned`: a process, or a kernel thread, holds lock_sock(). */
typedef struct {
	int owned;
} socket_lock_t;

struct list_head {
	struct list_head *next;
};

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	__u8 sk_shutdown;
	struct dst_entry *sk_dst_cache;
	int sk_rx_dst_ifindex;
	__u16 sk_protocol;
	int sk_err;
	int sk_err_soft;
	struct sock_cgroup_data sk_cgrp_data;
	struct bpf_local_storage *sk_bpf_storage;
};

typedef struct {
	int counter;
} atomic_t;

struct bpf_local_storage_elem {
	atomic_t state;
};

struct socket {
	struct sock *sk;
};

struct sk_buff {
	struct sock *sk;
	unsigned int len;
	__u16 transport_header; /* from `head` */
	unsigned char *head;
	unsigned char *data;
};

enum skb_drop_reason {
	SKB_DROP_REASON_QDISC_DROP,
};

struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
};

/* Only the callbacks of congestion/mptcpd.bpf.c. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16]; /* MPW_NAME_LEN */
	__u32 flags;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	__u8 icsk_ca_state : 5;
	__u8 icsk_pending;
	__u8 icsk_backoff;
	__u8 icsk_probes_out;
	__u64 icsk_ca_priv[13];
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	__u32 rtt_us;
};

struct tcp_options_received {
	__u32 rcv_tsecr; /* tsoffset is already subtracted */
	__u8 wscale_ok : 1;
	__u8 snd_wscale : 4;
	__u8 sack_ok : 3;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct tcp_options_received rx_opt;
	__u16 tcp_header_len;
	__u32 srtt_us;
	__u32 mdev_us;
	struct minmax rtt_min;
	struct tcp_rack rack;
	__u32 total_retrans;
	__u16 total_rto; /* 6.7 and later */
	__u64 bytes_sent;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 bytes_retrans;
	__u32 write_seq;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_wnd;
	__u32 rcv_tstamp; /* ticks at the last ACK */
	__u32 lost;
	__u32 packets_out;
	__u8 nonagle : 4;
	__u32 retrans_out;
	__u32 tlp_high_seq; /* snd_nxt at the last tail loss probe; 0: its outcome is known */
	__u32 lsndtime;	    /* tick of the last transmission of data */
	__u32 snd_ssthresh;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 max_packets_out;
	__u8 is_cwnd_limited : 1;
	__u32 delivered;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 mss_cache;
	__u32 segs_out;
	__u32 segs_in;
	__u32 data_segs_out;
	__u32 data_segs_in;
	__u64 delivered_mstamp;
	/* Since when the socket is busy (data queued or in flight) for one reason, in ticks. chrono_type 0: idle. Before, in ticks: chrono_stat. */
	__u32 chrono_start, chrono_stat[3];
	__u8 chrono_type : 2;
	bool is_mptcp;
};

struct mptcp_addr_info {
	__u8 id;
	unsigned short family;
	__be16 port;
	union {
		struct in_addr addr;
		struct in6_addr addr6;
	};
};

struct mptcp_rm_list {
	__u8 ids[8]; /* MPW_RM_IDS */
	__u8 nr;
};

struct mptcp_pm_data {
	struct mptcp_addr_info remote;
	bool server_side;
	__u8 add_addr_signaled;
	__u8 add_addr_accepted;
	struct mptcp_rm_list rm_list_tx;
	struct mptcp_rm_list rm_list_rx;
};

/* 6.18 renamed mptcp_pm_data.subflows to extra_subflows: the subflows besides the first. */
struct mptcp_pm_data___subflows {
	__u8 subflows;
};

struct mptcp_pm_data___extra {
	__u8 extra_subflows;
};

struct work_struct {
	void (*func)(struct work_struct *work);
};

struct mptcp_sock {
	struct inet_connection_sock sk;
	struct work_struct work;
	__u64 local_key; /* the keys never leave the kernel; see sha256.bpf.h */
	__u64 remote_key;
	__u64 bytes_sent; /* this and the next three: 6.5 and later */
	__u64 bytes_received;
	__u64 bytes_acked;
	__u64 bytes_retrans;
	__u64 snd_nxt;
	__u64 snd_una;
	__u64 ack_seq;
	__u64 write_seq;
	__u64 wnd_end;
	__u64 rcv_data_fin_seq;
	__u32 token;
	unsigned long flags;
	bool rcv_fastclose;
	__u8 fastclosing : 1;
	struct list_head conn_list;
	__u32 notsent_lowat; /* 6.9 and later; shows which bit means fallback */
	struct mptcp_pm_data pm;
};

struct mptcp_subflow_context {
	struct list_head node;
	__u32 token;
	__u32 remote_token;
	__u32 request_mptcp : 1;
	__u32 request_join : 1;
	__u32 request_bkup : 1;
	__u32 mp_capable : 1;
	__u32 mp_join : 1;
	__u32 backup : 1;
	__u32 stale : 1;
	bool fully_established; /* a bit up to 6.12 */
	__s16 local_id;
	__u8 remote_id;
	__u8 reset_reason : 4;
	struct sock *tcp_sock;
	struct sock *conn;
};

struct inode {
	void *i_private;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	char comm[16];
	struct files_struct *files;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	void *value;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct file *file;
};

#pragma clang attribute pop

#endif
