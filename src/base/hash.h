/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hashes. hash64 is for tables in memory: fast, keyed with random bytes of this process and never stored. Every
 * multiplication has a secret operand, so that a sender who does not know the key can neither make a product zero nor
 * choose inputs that collide. hash128 is for identities that are stored and compared between machines: its values never
 * change (a test pins them), and it is wide enough that equality is trusted without comparing the content. Neither is
 * cryptographic.
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

/* Set before main() from the kernel's random bytes: odd numbers with about as many ones as zeroes. */
extern uint64_t hash_seed, hash_key[3];
/* Derives hash_seed and hash_key from r: for tests that need the same values in every run. */
void hash_set_key(uint64_t r);

uint64_t hash64(const void *p, size_t n);

static inline uint64_t hash64_str(struct str s)
{
    return hash64(s.p, s.n);
}

static inline uint64_t hash64_u64(uint64_t v)
{
    return hash_mix(v ^ hash_seed, hash_key[0]);
}

/* The key of a table in memory for a stored identity: senders can compute hash128 and choose what collides in a few of
 * its bits, so those are never used as they are. */
static inline uint64_t hash64_id(struct id128 id)
{
    return hash_mix(id.hi ^ hash_seed, id.lo ^ hash_key[0]);
}

struct id128 hash128(const void *p, size_t n);
/* As stable and as wide as hash128, but a different function: for long runs of bytes, 64 of them a step. */
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
