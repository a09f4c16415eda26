/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes numbers as bytes: varints (7 bits per byte, low bits first), zigzag for signed numbers, little-endian for
 * fixed sizes. Reading is bounded and its error is sticky, as in json.h: after the first bad byte everything reads as
 * zero.
 */
#ifndef SEGMENT_CODING_H
#define SEGMENT_CODING_H

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"

static inline uint64_t zigzag(int64_t v)
{
    return (uint64_t) v << 1 ^ (uint64_t) (v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
    return (int64_t) (v >> 1) ^ -(int64_t) (v & 1);
}

/* Writes at p, which has room for ten bytes; returns the end. */
static inline unsigned char *varint_write(unsigned char *p, uint64_t v)
{
    while (v >= 128) {
        *p++ = (unsigned char) (v | 128);
        v >>= 7;
    }
    *p++ = (unsigned char) v;
    return p;
}

static inline void put_varint(struct buf *b, uint64_t v)
{
    if (likely(v < 128)) {
        buf_putc(b, (char) v);
    } else {
        unsigned char tmp[10];

        buf_put(b, tmp, (size_t) (varint_write(tmp, v) - tmp));
    }
}

static inline void put_zigzag(struct buf *b, int64_t v)
{
    put_varint(b, zigzag(v));
}

static inline void put_u32(struct buf *b, uint32_t v)
{
    unsigned char t[4] = {(unsigned char) v, (unsigned char) (v >> 8), (unsigned char) (v >> 16),
                          (unsigned char) (v >> 24)};

    buf_put(b, t, 4);
}

static inline void put_u64(struct buf *b, uint64_t v)
{
    put_u32(b, (uint32_t) v);
    put_u32(b, (uint32_t) (v >> 32));
}

static inline void put_bytes(struct buf *b, const void *p, size_t n)
{
    put_varint(b, n);
    buf_put(b, p, n);
}

static inline uint32_t load_u32(const void *p)
{
    const unsigned char *q = p;

    return (uint32_t) q[0] | (uint32_t) q[1] << 8 | (uint32_t) q[2] << 16 | (uint32_t) q[3] << 24;
}

static inline uint64_t load_u64(const void *p)
{
    return load_u32(p) | (uint64_t) load_u32((const char *) p + 4) << 32;
}

static inline void store_u32(void *p, uint32_t v)
{
    unsigned char *q = p;

    q[0] = (unsigned char) v;
    q[1] = (unsigned char) (v >> 8);
    q[2] = (unsigned char) (v >> 16);
    q[3] = (unsigned char) (v >> 24);
}

static inline void store_u64(void *p, uint64_t v)
{
    store_u32(p, (uint32_t) v);
    store_u32((char *) p + 4, (uint32_t) (v >> 32));
}

struct reader {
    const unsigned char *p, *end;
    bool bad;
};

static inline struct reader reader_of(const void *p, size_t n)
{
    const unsigned char *q = p ? p : (const void *) "";

    return (struct reader){q, q + (p ? n : 0), false};
}

static inline uint64_t get_varint(struct reader *r)
{
    uint64_t v;
    int shift = 7;

    if (unlikely(r->p >= r->end)) {
        r->bad = true;
        return 0;
    }
    v = *r->p++;
    if (likely(v < 128))
        return v;
    v &= 127;
    for (;;) {
        uint64_t c;

        if (unlikely(r->p >= r->end || shift > 63)) {
            r->bad = true;
            r->p = r->end;
            return 0;
        }
        c = *r->p++;
        v |= (c & 127) << shift;
        if (c < 128)
            return v;
        shift += 7;
    }
}

static inline int64_t get_zigzag(struct reader *r)
{
    return unzigzag(get_varint(r));
}

/* Reads a value that was written as a signed number of units from base. Damaged values wrap around. */
static inline int64_t get_behind(struct reader *r, int64_t base, int64_t unit)
{
    return (int64_t) ((uint64_t) base + (uint64_t) get_zigzag(r) * (uint64_t) unit);
}

/* Reads a varint that must be below limit; otherwise returns 0 and marks the reader as bad. */
static inline uint32_t get_below(struct reader *r, uint64_t limit)
{
    uint64_t v = get_varint(r);

    if (unlikely(v >= limit)) {
        r->bad = true;
        r->p = r->end;
        return 0;
    }
    return (uint32_t) v;
}

static inline const unsigned char *get_raw(struct reader *r, size_t n)
{
    const unsigned char *p = r->p;

    if ((size_t) (r->end - r->p) < n) {
        r->bad = true;
        r->p = r->end;
        return NULL;
    }
    r->p += n;
    return p;
}

static inline struct str get_bytes(struct reader *r)
{
    uint64_t n = get_varint(r);
    const unsigned char *p = n > UINT32_MAX ? NULL : get_raw(r, n);

    if (!p) {
        r->bad = true;
        r->p = r->end;
        return (struct str){0};
    }
    return (struct str){(const char *) p, (uint32_t) n};
}

static inline uint32_t get_u32(struct reader *r)
{
    const unsigned char *p = get_raw(r, 4);

    return p ? load_u32(p) : 0;
}

static inline uint64_t get_u64(struct reader *r)
{
    const unsigned char *p = get_raw(r, 8);

    return p ? load_u64(p) : 0;
}

#endif
