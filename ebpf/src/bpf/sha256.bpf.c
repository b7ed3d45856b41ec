// SPDX-License-Identifier: GPL-2.0-only
/* SHA-256 of one short message, for sha256.bpf.h. */
#include "sha256.bpf.h"

/* clang-format off */
static const __u32 sha256_k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* volatile: otherwise clang puts the 32 constant bytes into a section that libbpf's linker does not support. */
static const volatile __u32 sha256_start[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};
/* clang-format on */

#define SHA256_ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))

/* `words` is the last 16 words of the message schedule: word t is in words[t & 15]. */
struct hashing {
	__u32 s[8];
	__u32 words[16];
};

static __always_inline __u32 sha256_word(__u32 *words, __u32 t)
{
	__u32 two_back = words[(t - 2) & 15], fifteen_back = words[(t - 15) & 15];
	__u32 s0 = SHA256_ROTATE(fifteen_back, 7) ^ SHA256_ROTATE(fifteen_back, 18) ^
		   fifteen_back >> 3;
	__u32 s1 = SHA256_ROTATE(two_back, 17) ^ SHA256_ROTATE(two_back, 19) ^ two_back >> 10;

	return words[t & 15] += s0 + words[(t - 7) & 15] + s1;
}

static int sha256_round(__u32 t, struct hashing *hashing)
{
	__u32 *s = hashing->s;
	__u32 word = t < 16 ? hashing->words[t & 15] : sha256_word(hashing->words, t);
	__u32 s1 = SHA256_ROTATE(s[4], 6) ^ SHA256_ROTATE(s[4], 11) ^ SHA256_ROTATE(s[4], 25);
	__u32 choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
	__u32 t1 = s[7] + s1 + choice + sha256_k[t & 63] + word;
	__u32 s0 = SHA256_ROTATE(s[0], 2) ^ SHA256_ROTATE(s[0], 13) ^ SHA256_ROTATE(s[0], 22);
	__u32 majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);

	s[7] = s[6];
	s[6] = s[5];
	s[5] = s[4];
	s[4] = s[3] + t1;
	s[3] = s[2];
	s[2] = s[1];
	s[1] = s[0];
	s[0] = t1 + s0 + majority;
	return 0;
}

/* With bpf_loop(), so that the verifier follows one round and not 64. */
__noinline int hash_key(struct key_hash *out, __u64 key)
{
	struct hashing hashing = {.words = {key >> 32, (__u32)key, 0x80000000}};
	__u32 *s = hashing.s;

	if (!out)
		return 0;
	hashing.words[15] = 64; /* message length in bits */
	for (int i = 0; i < 8; i++)
		s[i] = sha256_start[i];
	bpf_loop(64, sha256_round, &hashing, 0);
	out->token = s[0] + sha256_start[0];
	out->idsn = (__u64)(s[6] + sha256_start[6]) << 32 | (s[7] + sha256_start[7]);
	return 0;
}
