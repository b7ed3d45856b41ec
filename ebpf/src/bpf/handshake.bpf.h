/* SPDX-License-Identifier: GPL-2.0-only */
/* Token and sequence numbers of the MP_CAPABLE handshake, read once. The keys are hashed here and never leave the kernel. */
#ifndef MPWATCH_HANDSHAKE_BPF_H
#define MPWATCH_HANDSHAKE_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"
#include "sha256.bpf.h"

/* After a fallback, sequence numbers do not follow from the keys. In SYN_SENT, the keys may belong to the socket's previous connection. */
static __noinline int note_handshake(struct handshake *known, struct mptcp_sock *msk)
{
	__u8 state = READ(msk, sk.icsk_inet.sk.__sk_common.skc_state);
	__u32 token = READ(msk, token);
	struct key_hash hash = {}, own = {};
	bool lacks_token;
	__u64 key;

	if (token)
		known->token = token;
	known->cookie = READ(msk, sk.icsk_inet.sk.__sk_common.skc_cookie.counter);
	if (msk_fell_back(msk))
		known->fell_back = 1;
	if (known->remote_token || state == TCP_SYN_SENT)
		return 0;
	key = READ(msk, remote_key);
	if (!key)
		return 0;
	hash_key(&hash, key);
	/* The kernel clears the token when the connection closes, before it destroys the last subflow. */
	lacks_token = !known->token && !msk_fell_back(msk);
	if (lacks_token || (!msk_counts_bytes() && !msk_fell_back(msk)))
		hash_key(&own, READ(msk, local_key));
	if (lacks_token)
		known->token = own.token;
	if (!msk_counts_bytes() && !msk_fell_back(msk)) {
		/* first_received is set last: a reader on another CPU uses both fields if it is set. */
		*(volatile __u64 *)&known->first_sent = own.idsn + 1;
		*(volatile __u64 *)&known->first_received = hash.idsn + 1;
	}
	*(volatile __u32 *)&known->remote_token = hash.token;
	return 0;
}

#endif
