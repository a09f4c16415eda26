/* SPDX-License-Identifier: Apache-2.0 */
/* The hash functions of hash.h. Multiply-and-fold over 16 bytes a step, two independent lanes for 128 bits. */
#include "base/hash.h"

#include <string.h>
#include <sys/random.h>

#define K0 0xa0761d6478bd642full
#define K1 0xe7037ed1a0b428dbull
#define K2 0x8ebc6af09c88c6e3ull
#define K3 0x589965cc75374cc3ull

uint64_t hash_seed = K2, hash_key[3] = {K0, K1, K3};

/* The next number of the sequence that starts at *state (splitmix64) that makes a good operand. */
static uint64_t next_key(uint64_t *state)
{
    for (;;) {
        uint64_t z = *state += 0x9e3779b97f4a7c15ull;
        int ones;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        z = (z ^ z >> 31) | 1;
        ones = __builtin_popcountll(z);
        if (ones >= 28 && ones <= 36)
            return z;
    }
}

void hash_set_key(uint64_t r)
{
    hash_seed = next_key(&r);
    for (size_t i = 0; i < ARRAY_SIZE(hash_key); i++)
        hash_key[i] = next_key(&r);
}

__attribute__((constructor)) static void seed(void)
{
    uint64_t r;

    if (getrandom(&r, sizeof r, GRND_NONBLOCK) == (ssize_t) sizeof r)
        hash_set_key(r);
}

static uint64_t load64(const void *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

/* Up to 8 bytes, zero-filled. */
static uint64_t load_tail(const unsigned char *p, size_t n)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n; i++)
        v |= (uint64_t) p[i] << (8 * i);
    return v;
}

uint64_t hash64(const void *data, size_t n)
{
    const unsigned char *p = data;
    const uint64_t k0 = hash_key[0], k1 = hash_key[1], k2 = hash_key[2];
    uint64_t h = hash_seed ^ hash_mix(n ^ k2, k0), a, b;
    size_t left = n;

    for (; left > 16; left -= 16, p += 16)
        h = hash_mix(load64(p) ^ k1, load64(p + 8) ^ h);
    if (left >= 8) {
        a = load64(p);
        b = load64(p + left - 8);
    } else if (left >= 4) {
        uint32_t x, y;

        memcpy(&x, p, 4);
        memcpy(&y, p + left - 4, 4);
        a = x;
        b = y;
    } else {
        a = left ? (uint64_t) p[0] << 16 | (uint64_t) p[left / 2] << 8 | p[left - 1] : 0;
        b = 0;
    }
    return hash_mix(hash_mix(a ^ k1, b ^ h) ^ k2, n ^ k0);
}

void hash128_init(struct hash128_state *s, uint64_t domain)
{
    s->a = K0 ^ domain;
    s->b = K1 + hash_mix(domain ^ K2, K3);
}

void hash128_bytes(struct hash128_state *s, const void *data, size_t n)
{
    const unsigned char *p = data;

    hash128_u64(s, n);
    for (; n >= 8; n -= 8, p += 8)
        hash128_u64(s, load64(p));
    if (n)
        hash128_u64(s, load_tail(p, n));
}

struct id128 hash128_final(const struct hash128_state *s)
{
    return (struct id128){hash_mix(s->a ^ K3, s->b ^ K0), hash_mix(s->b ^ K2, s->a ^ K1) + s->a};
}

struct id128 hash128(const void *p, size_t n)
{
    struct hash128_state s;

    hash128_init(&s, 0);
    hash128_bytes(&s, p, n);
    return hash128_final(&s);
}

/* One lane: 128 bits of state, 16 bytes a step, the whole product kept. */
static inline void lane_step(uint64_t *x, uint64_t *y, const unsigned char *p)
{
    uint64_t a = load64(p), b = load64(p + 8);
    unsigned __int128 m = (unsigned __int128) (a ^ *x) * (b ^ *y);

    *x = (uint64_t) (m >> 64) ^ b;
    *y = (uint64_t) m + a;
}

struct id128 hash128_long(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t x[4] = {K0, K1, K2, K3}, y[4] = {K1 ^ n, K2 ^ n, K3 ^ n, K0 ^ n};
    struct hash128_state s;

    for (; n >= 64; n -= 64, p += 64) {
        lane_step(&x[0], &y[0], p);
        lane_step(&x[1], &y[1], p + 16);
        lane_step(&x[2], &y[2], p + 32);
        lane_step(&x[3], &y[3], p + 48);
    }
    hash128_init(&s, 0);
    for (int i = 0; i < 4; i++) {
        hash128_u64(&s, x[i]);
        hash128_u64(&s, y[i]);
    }
    hash128_bytes(&s, p, n);
    return hash128_final(&s);
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_hw(uint32_t crc, const unsigned char *p, size_t n)
{
    uint64_t c = crc;

    for (; n >= 8; n -= 8, p += 8)
        c = __builtin_ia32_crc32di(c, load64(p));
    for (; n; n--, p++)
        c = __builtin_ia32_crc32qi((uint32_t) c, *p);
    return (uint32_t) c;
}
#endif

static uint32_t crc32c_soft(uint32_t crc, const unsigned char *p, size_t n)
{
    static uint32_t table[256];
    static int ready;

    if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;

            for (int k = 0; k < 8; k++)
                c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
            table[i] = c;
        }
        __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    }
    for (; n; n--, p++)
        crc = crc >> 8 ^ table[(crc ^ *p) & 0xff];
    return crc;
}

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc32c_hw(crc, p, n);
#endif
    return ~crc32c_soft(crc, p, n);
}
