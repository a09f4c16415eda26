/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4): file identities (htlhash), hashed attributes, stored tokens. Allocates nothing. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include "base/macros.h"

enum { SHA256_SIZE = 32 };

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_final(struct sha256 *s, uint8_t ret[SHA256_SIZE]);
/* Hashes a whole buffer in one call. */
void sha256_of(const void *p, size_t n, uint8_t ret[SHA256_SIZE]);

#endif
