/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as bytes, for every format that wick reads or writes: varints (LEB128: 7 bits per byte, low bits first, at most
 * ten bytes), zigzag for signed numbers, fixed sizes, hexadecimal digits.
 *
 * `struct cursor` is a bounded cursor whose error is sticky, as in json.h: after the first bad byte everything reads as
 * zero, and the owner checks `bad` once at the end.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/wrap.h"

/* --- hexadecimal --- */

/* The value of a digit in either case, or -1. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline int hex_digit_lower(char c)
{
    return c >= 'A' && c <= 'F' ? -1 : hex_digit(c);
}

/* Writes 2 * n digits in lower case, without a NUL; returns the end. Safe in a signal handler. */
char *hex_write(char *to, const void *p, size_t n);
void hex_encode(struct buf *out, const void *p, size_t n); /* lower case */
/* Writes s.n / 2 bytes to ret. Returns 0, or -EINVAL for an odd length or other characters. */
int hex_decode(struct str s, void *ret);
/* Reads a number of 1 to 16 digits that is the whole of s, in either case, without a prefix. */
bool hex_number(struct str s, uint64_t *ret);

/* --- fixed sizes: little-endian (u), big-endian (be) --- */

static inline uint16_t load_u16(const void *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return le16toh(v);
}

static inline void put_u16(struct buf *b, uint16_t v)
{
    v = htole16(v);
    buf_put(b, &v, sizeof v);
}

static inline uint32_t load_u32(const void *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static inline void store_u32(void *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}

static inline void put_u32(struct buf *b, uint32_t v)
{
    v = htole32(v);
    buf_put(b, &v, sizeof v);
}

static inline uint64_t load_u64(const void *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static inline void store_u64(void *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}

static inline void put_u64(struct buf *b, uint64_t v)
{
    v = htole64(v);
    buf_put(b, &v, sizeof v);
}

static inline uint32_t load_be32(const void *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static inline void store_be32(void *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof v);
}

/* --- varints --- */

const uint8_t *varint_read_slow(const uint8_t *p, const uint8_t *end, uint64_t *ret);
uint32_t varint_count_long(const uint8_t *p, size_t n);

/* Returns the position after the varint, or NULL if it is cut short or longer than 10 bytes. */
static inline __attribute__((always_inline)) const uint8_t *varint_read(const uint8_t *p, const uint8_t *end,
                                                                        uint64_t *ret)
{
    if (likely(p < end && p[0] < 0x80)) {
        *ret = p[0];
        return p + 1;
    }
    if (likely(end - p >= 2 && p[1] < 0x80)) {
        *ret = (uint64_t) (p[0] & 0x7f) | (uint64_t) p[1] << 7;
        return p + 2;
    }
    if (likely(end - p >= 3 && p[2] < 0x80)) {
        *ret = (uint64_t) (p[0] & 0x7f) | (uint64_t) (p[1] & 0x7f) << 7 | (uint64_t) p[2] << 14;
        return p + 3;
    }
    return varint_read_slow(p, end, ret);
}

/* As varint_read() without its value. */
static inline __attribute__((always_inline)) const uint8_t *varint_skip(const uint8_t *p, const uint8_t *end)
{
    uint64_t stop;

    if (likely(p < end && p[0] < 0x80))
        return p + 1;
    if (likely(end - p >= 8)) {
        stop = ~load_u64(p) & 0x8080808080808080ull;
        if (likely(stop))
            return p + __builtin_ctzll(stop) / 8 + 1;
    }
    return varint_read_slow(p, end, &stop);
}

/* How many varints a run of them holds: its bytes without the continuation bit. */
static inline uint32_t varint_count(const uint8_t *p, size_t n)
{
    uint32_t count = 0;

    if (unlikely(n > 8))
        return varint_count_long(p, n);
    for (size_t i = 0; i < n; i++)
        count += p[i] < 0x80;
    return count;
}

/* The bytes that varint_write() writes. */
static inline size_t varint_size(uint64_t v)
{
    return (size_t) (70 - __builtin_clzll(v | 1)) / 7;
}

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

static inline void put_bytes(struct buf *b, const void *p, size_t n)
{
    put_varint(b, n);
    buf_put(b, p, n);
}

/* --- reading --- */

struct cursor {
    const unsigned char *p, *end;
    bool bad;
};

static inline struct cursor cursor_of(const void *p, size_t n)
{
    const unsigned char *q = p ? p : (const void *) "";

    return (struct cursor){q, q + (p ? n : 0), false};
}

/* Marks the reader as bad; returns 0. */
static inline uint64_t cursor_fail(struct cursor *r)
{
    r->bad = true;
    r->p = r->end;
    return 0;
}

static inline uint64_t get_varint(struct cursor *r)
{
    uint64_t v;
    const uint8_t *p = varint_read(r->p, r->end, &v);

    if (unlikely(!p))
        return cursor_fail(r);
    r->p = p;
    return v;
}

static inline int64_t get_zigzag(struct cursor *r)
{
    return unzigzag(get_varint(r));
}

/* DWARF's signed LEB128: two's complement instead of zigzag. */
static inline int64_t get_sleb(struct cursor *r)
{
    const uint8_t *from = r->p;
    uint64_t v = get_varint(r), bits = 7 * (uint64_t) (r->p - from);

    if (!r->bad && bits < 64 && r->p[-1] & 0x40)
        v |= -(1ull << bits);
    return (int64_t) v;
}

/* Reads a value that was written as a signed number of units from base. Damaged values wrap around. */
static inline int64_t get_behind(struct cursor *r, int64_t base, int64_t unit)
{
    return wrap_add(base, wrap_mul(get_zigzag(r), unit));
}

/* Reads a varint that must be below limit; otherwise returns 0 and marks the reader as bad. */
static inline uint32_t get_below(struct cursor *r, uint64_t limit)
{
    uint64_t v = get_varint(r);

    return unlikely(v >= limit) ? (uint32_t) cursor_fail(r) : (uint32_t) v;
}

static inline const unsigned char *get_raw(struct cursor *r, size_t n)
{
    const unsigned char *p = r->p;

    if ((size_t) (r->end - r->p) < n) {
        cursor_fail(r);
        return NULL;
    }
    r->p += n;
    return p;
}

static inline struct str get_bytes(struct cursor *r)
{
    uint64_t n = get_varint(r);
    const unsigned char *p = n > UINT32_MAX ? NULL : get_raw(r, n);

    if (!p) {
        cursor_fail(r);
        return (struct str){0};
    }
    return (struct str){(const char *) p, (uint32_t) n};
}

static inline uint8_t get_u8(struct cursor *r)
{
    return likely(r->p < r->end) ? *r->p++ : (uint8_t) cursor_fail(r);
}

static inline uint16_t get_u16(struct cursor *r)
{
    const unsigned char *p = get_raw(r, 2);

    return p ? load_u16(p) : 0;
}

static inline uint32_t get_u32(struct cursor *r)
{
    const unsigned char *p = get_raw(r, 4);

    return p ? load_u32(p) : 0;
}

static inline uint64_t get_u64(struct cursor *r)
{
    const unsigned char *p = get_raw(r, 8);

    return p ? load_u64(p) : 0;
}

#endif
