/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Settings that user space passes to the BPF programs. The rules of mpwatch_abi.h apply. */
#ifndef MPWATCH_SETTINGS_H
#define MPWATCH_SETTINGS_H

/* Set before the programs are loaded, so that the verifier treats them as constants. */
struct mpw_settings {
	/* Process id of mpwatch. */
	__u32 self_pid;
	/* Slots for the CPU time of sockets, including slot 0, which belongs to no socket. */
	__u32 cost_slots;
	/* Nanoseconds from one timer tick of the kernel to the next (1 / CONFIG_HZ). */
	__u32 tick_ns;
	/* 1: also trace plain TCP connections. */
	__u8 trace_tcp;
	/* 1: keep the CPU ledger. */
	__u8 ledger;
	/* 1: keep the CPU ledger in sampling windows only, which user space opens and closes (`ledger_open`, `ledger_close`). */
	__u8 ledger_sampled;
	/* 1: take RTT samples to detect shared bottlenecks. */
	__u8 samples;
	/* 1: the kernel has bpf_rdonly_cast(), so fields are read in place (read.bpf.h). */
	__u8 has_cast;
	/* 1: tcp_retransmit_skb also reports failed retransmissions; its third argument is the error (6.18 and later). */
	__u8 reports_failed_retransmits;
	__u8 _reserved[2];
};

/* Sampling rate of received segments. User space may reduce it at any time to save CPU time. */
struct mpw_sampling_rate {
	/* In each timer tick, the first segments_per_tick segments of a subflow are sampled, then one in every_nth (a power of two). */
	__u32 segments_per_tick;
	__u32 every_nth;
	/* Factor on the interval between two delay samples. */
	__u32 interval_factor;
	__u32 _reserved;
};

#endif
