/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What follows from a key (RFC 8684 section 3.2): its token is the first 32 bits of the SHA-256 of its 8 bytes, its initial
 * data sequence number the last 64. Computed here so that the key never leaves the kernel. One block is enough for 8 bytes,
 * so this is one run of the FIPS 180-4 compression function.
 */
#ifndef MPWATCH_SHA256_BPF_H
#define MPWATCH_SHA256_BPF_H

#include "kernel.bpf.h"

struct key_hash {
	__u64 idsn;
	__u32 token;
	__u32 _padding;
};

/* A global function, so that the verifier looks at it once a program, and not once a call. */
int hash_key(struct key_hash *out, __u64 key);

#endif
