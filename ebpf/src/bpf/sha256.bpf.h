/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hash of a key (RFC 8684 section 3.2): the token is the first 32 bits of the SHA-256, the initial data sequence number the last 64.
 * Computed in BPF so that the key never leaves the kernel. 8 bytes fit one block: one run of the FIPS 180-4 compression function.
 */
#ifndef MPWATCH_SHA256_BPF_H
#define MPWATCH_SHA256_BPF_H

#include "kernel.bpf.h"

struct key_hash {
	__u64 idsn;
	__u32 token;
	__u32 _padding;
};

/* A global function: the verifier checks it once per program, not once per call. */
int hash_key(struct key_hash *out, __u64 key);

#endif
