/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hashes. hash64 is for tables in memory: fast, seeded once per process so that a sender cannot aim at it; never
 * stored. hash128 is for identities that are stored and compared between machines: fixed for ever (a test pins its
 * values), wide enough that equality is trusted without looking at the content. Neither is cryptographic.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>

#include "base/macros.h"
#include "base/str.h"

struct id128 {
    uint64_t hi, lo;
};

static inline bool id128_eq(struct id128 a, struct id128 b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

static inline bool id128_is_zero(struct id128 a)
{
    return !(a.hi | a.lo);
}

/* 64 x 64 -> 128 bits, folded: the mixing step of both. */
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128) a * b;

    return (uint64_t) m ^ (uint64_t) (m >> 64);
}

extern uint64_t hash_seed; /* set before main() from the kernel's random bytes */

uint64_t hash64(const void *p, size_t n);

static inline uint64_t hash64_str(struct str s)
{
    return hash64(s.p, s.n);
}

static inline uint64_t hash64_u64(uint64_t v)
{
    return hash_mix(v ^ hash_seed, 0x9e3779b97f4a7c15ull);
}

struct id128 hash128(const void *p, size_t n);
/* As fixed and as wide, another function: for long runs of bytes, 64 of them a step. */
struct id128 hash128_long(const void *p, size_t n);

/* hash128 in steps, over numbers and strings with their lengths, so that ("ab","c") differs from ("a","bc").
 * Integers are hashed in little-endian order on every machine. */
struct hash128_state {
    uint64_t a, b;
};

void hash128_init(struct hash128_state *s, uint64_t domain);
static inline void hash128_u64(struct hash128_state *s, uint64_t v)
{
    s->a = hash_mix(s->a ^ v, 0x8ebc6af09c88c6e3ull) + s->b;
    s->b = hash_mix(s->b ^ v ^ 0x589965cc75374cc3ull, 0xe7037ed1a0b428dbull) ^ (s->a << 23 | s->a >> 41);
}

void hash128_bytes(struct hash128_state *s, const void *p, size_t n);
struct id128 hash128_final(const struct hash128_state *s);

/* CRC-32C (Castagnoli), for files. Start with crc = 0. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);

#endif
