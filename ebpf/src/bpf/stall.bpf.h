/* SPDX-License-Identifier: GPL-2.0-only */
/* Stalls of a connection, detected by each subflow before it processes a segment. User space combines them (stall.rs). */
#ifndef MPWATCH_STALL_BPF_H
#define MPWATCH_STALL_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/*
 * Records the interval without progress from observed->progress_ns to `to`, if it is long enough, in place of a shorter or reported stall. A
 * global function, so that the verifier checks it only once.
 */
__noinline int note_stall(struct subflow_state *state, __u64 to, __u32 unacked)
{
	__u64 from, length, least, oldest = ~0ull;
	struct mpw_stall *stall, *place = NULL;
	__u64 *noted = NULL;

	if (!state)
		return 0;
	from = state->observed.progress_ns;
	if (!from || to <= from + MPW_MIN_STALL_NS)
		return 0;
	least = to - from;
	for (int i = 0; i < MPW_STALLS; i++) {
		stall = &state->observed.stalls[i];
		length = state->stall_noted_ns[i] >= state->stalls_read_ns
				 ? stall->to_ns - stall->from_ns
				 : 0;
		if (length < least || (length == least && stall->to_ns < oldest)) {
			least = length;
			oldest = stall->to_ns;
			place = stall;
			noted = &state->stall_noted_ns[i];
		}
	}
	if (!place || !noted)
		return 0;
	*noted = bpf_ktime_get_boot_ns();
	place->from_ns = from;
	place->to_ns = to;
	place->unacked = unacked;
	return 0;
}

/* Whether payload is unacknowledged. The DATA_FIN of a closing connection is not payload, but takes up one sequence number. */
static __always_inline bool is_payload_unacked(struct mptcp_sock *msk, __u64 snd_una)
{
	__u64 outstanding = READ(msk, snd_nxt) - snd_una;
	__u8 msk_state;

	if (outstanding != 1)
		return outstanding;
	msk_state = READ(msk, sk.icsk_inet.sk.__sk_common.skc_state);
	return msk_state == TCP_ESTABLISHED || msk_state == TCP_CLOSE_WAIT;
}

/* Whether the retransmission timer had expired three times before `from`. If the first timeout is 200 ms, the first n take (2^n - 1) * 200 ms. */
static __always_inline bool has_failed_before(struct tcp_sock *tp, __u64 from, __u64 now)
{
	__u64 missed = READ(tp, inet_conn.icsk_backoff);

	return missed > 3 && missed < 16 && now + 1600000000 < from + (200000000ull << missed);
}

/* Boot-clock time of a timer tick. */
static __always_inline __u64 tick_time(__u32 tick, __u64 now)
{
	return now - (__u64)((__u32)bpf_jiffies64() - tick) * settings.tick_ns;
}

#define MPW_NAGLE_CORK 2 /* TCP_NAGLE_CORK of include/net/tcp.h */

/*
 * Since when a subflow has data that is in flight or that this host refuses, for example in a full queue; 0: it has none. The kernel's time
 * includes the time for which TCP_CORK held back the data, which ends with a single packet. `sock`: a struct tcp_sock. A global function, as
 * note_stall().
 */
__noinline __u64 in_flight_since(__u64 sock, __u64 from, __u64 now)
{
	struct tcp_sock *tp = (struct tcp_sock *)sock;
	__u64 since = tick_time(READ(tp, chrono_start), now);
	__u32 packets = READ(tp, packets_out);

	if (!READ_BITS(tp, chrono_type) || has_failed_before(tp, from, now))
		return 0;
	if (now - from <= MPW_MIN_STALL_NS || packets > 1 ||
	    !(READ_BITS(tp, nonagle) & MPW_NAGLE_CORK))
		return since;
	if (!packets)
		return READ(tp, inet_conn.icsk_backoff) ? since : 0;
	/* A tail loss probe counts for lsndtime, not for retrans_out. */
	if (READ(tp, retrans_out) || READ(tp, tlp_high_seq) == READ(tp, snd_nxt))
		return since;
	return tick_time(READ(tp, lsndtime), now);
}

/* Maximum number of subflows that are checked per connection. The kernel allows up to 64. */
#define MAX_SUBFLOWS 16

/*
 * When a subflow of the connection first had data in flight after `from`, to the precision of a timer tick; `now` if none had. Returns `from` if
 * a subflow has had data in flight since before `from`, unless this data has a DATA_ACK: `beyond` (see update_progress()) is then 0 or, on a path
 * with timeouts, positive. Data on a path that had failed before `from` is ignored, because it is reinjected on another path.
 */
static __noinline __u64 waiting_since(struct mptcp_sock *msk, __u64 from, __u64 now, __s64 beyond)
{
	struct list_head *end = __builtin_preserve_access_index(&msk->conn_list);
	struct list_head *node = READ(msk, conn_list.next);
	struct mptcp_subflow_context *subflow;
	__u64 since, first = now;
	struct tcp_sock *tp = NULL;

	for (int i = 0; i < MAX_SUBFLOWS && node && node != end; i++) {
		subflow = (void *)node - bpf_core_field_offset(struct mptcp_subflow_context, node);
		node = READ(subflow, node.next);
		/* A helper call yields a number. The verifier rejects a pointer to kernel memory as an argument of a global function. */
		bpf_core_read(&tp, sizeof(tp), &subflow->tcp_sock);
		since = in_flight_since((__u64)tp, from, now);
		if (!since)
			continue;
		if (since > from && since < first)
			first = since;
		else if (since <= from && beyond &&
			 !(beyond > 0 && READ(tp, inet_conn.icsk_backoff)))
			return from;
	}
	return first;
}

/* Whether the receive window of the peer admits no segment. */
static __always_inline bool is_window_closed(struct tcp_sock *tp, struct mptcp_sock *msk)
{
	return tp->snd_wnd < MPW_MIN_WINDOW ||
	       (__s64)(READ(msk, wnd_end) - READ(msk, snd_una)) < MPW_MIN_WINDOW;
}

/*
 * Called before the kernel processes a segment, so progress found now was made by this subflow's previous segment, or on another subflow. Two
 * intervals do not count as a wait: (1) from the previous segment until data is in flight, if all data sent before that segment is acknowledged,
 * or all data written before it is sent or does not fit into the peer's window (a peer that has all data may send the last DATA_ACK late); (2) from
 * the closing of the peer's window until data sent into it, which the peer may have discarded, is acknowledged. If no data waits now, another
 * subflow has recorded the wait.
 */
static __always_inline void update_progress(struct subflow_state *state, struct tcp_sock *tp,
					    struct mptcp_sock *msk, __u64 now)
{
	struct mpw_observed *observed = &state->observed;
	__u64 snd_una = READ(msk, snd_una);
	__u64 at = state->received_ns;
	/*
	 * Payload acknowledged beyond the snd_nxt of the previous sampled segment. Negative: some payload before it is unacknowledged. 1 for the
	 * first sampled segment, which is long after the handshake if the subflow was not used, or if the first data arrived in one tick.
	 */
	__s64 beyond = state->next_seq ? snd_una - state->next_seq : 1;
	__u64 snd_nxt = READ(msk, snd_nxt);
	bool is_full = (__s64)(READ(msk, wnd_end) - snd_nxt) < tp->mss_cache;
	bool is_sent =
		is_full || (state->written_seq && (__s64)(snd_nxt - state->written_seq) >= 0);
	bool was_limited =
		state->limited_seq && (__s64)(state->limited_seq - state->progress_seq) > 0;
	__u64 since = 0;

	/* The path has failed in the sending direction: segments that arrive on it carry the peer's data. */
	if (tp->inet_conn.icsk_backoff > 3 && tp->packets_out)
		return;
	state->next_seq = snd_nxt;
	state->written_seq = READ(msk, write_seq);
	if ((beyond >= 0 || is_sent) && at && now - at > MPW_MIN_STALL_NS / 10 &&
	    is_payload_unacked(msk, snd_una))
		since = waiting_since(msk, at, now, beyond);
	if (snd_una != state->progress_seq) {
		state->progress_seq = snd_una;
		note_stall(state, at, observed->flags & MPW_SF_UNACKED && !was_limited);
		observed->progress_ns = at;
		if (is_payload_unacked(msk, snd_una))
			observed->flags |= MPW_SF_UNACKED;
		else
			observed->flags &= ~MPW_SF_UNACKED;
	}
	if (since > at && since > observed->progress_ns) {
		/* Progress was made on another subflow. */
		if (beyond > 0)
			note_stall(state, since, MPW_STALL_UNUSED);
		observed->progress_ns = since;
		observed->flags |= MPW_SF_UNACKED;
	}
	if (is_window_closed(tp, msk)) {
		observed->progress_ns = now;
		state->limited_seq = snd_nxt;
	} else if (!tp->packets_out && !is_payload_unacked(msk, snd_una)) {
		observed->progress_ns = now;
	}
}

#endif
