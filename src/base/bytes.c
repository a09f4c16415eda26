/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as bytes (bytes.h): what is too long to be inlined. */
#include "base/bytes.h"

#include <errno.h>

char *hex_write(char *to, const void *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *b = p;

    for (size_t i = 0; i < n; i++) {
        *to++ = digits[b[i] >> 4];
        *to++ = digits[b[i] & 15];
    }
    return to;
}

void hex_encode(struct buf *out, const void *p, size_t n)
{
    char *q = buf_reserve(out, 2 * n);

    if (q)
        out->n += (size_t) (hex_write(q, p, n) - q);
}

int hex_decode(struct str s, void *ret)
{
    unsigned char *q = ret;

    if (s.n % 2)
        return -EINVAL;
    for (uint32_t i = 0; i < s.n; i += 2) {
        int hi = hex_digit(s.p[i]), lo = hex_digit(s.p[i + 1]);

        if (hi < 0 || lo < 0)
            return -EINVAL;
        *q++ = (unsigned char) (hi << 4 | lo);
    }
    return 0;
}

bool hex_number(struct str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0 || s.n > 16)
        return false;
    for (uint32_t i = 0; i < s.n; i++) {
        int d = hex_digit(s.p[i]);

        if (d < 0)
            return false;
        v = v << 4 | (uint64_t) d;
    }
    *ret = v;
    return true;
}

/* Removes the continuation bits from n <= 8 bytes loaded little-endian. */
static uint64_t squeeze(uint64_t x, unsigned n)
{
    if (n < 8)
        x &= (1ull << n * 8) - 1;
    x &= 0x7f7f7f7f7f7f7f7full;
    x = (x & 0x007f007f007f007full) | (x & 0x7f007f007f007f00ull) >> 1;
    x = (x & 0x00003fff00003fffull) | (x & 0x3fff00003fff0000ull) >> 2;
    return (x & 0x000000000fffffffull) | (x & 0x0fffffff00000000ull) >> 4;
}

const uint8_t *varint_read_slow(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
    uint64_t v = 0;

    if (likely(end - p >= 8)) {
        uint64_t x = load_u64(p), stop = ~x & 0x8080808080808080ull;

        if (likely(stop)) {
            unsigned n = (unsigned) __builtin_ctzll(stop) / 8 + 1;

            *ret = squeeze(x, n);
            return p + n;
        }
    }
    for (int shift = 0; p < end && shift < 70; shift += 7) {
        uint8_t c = *p++;

        v |= shift < 64 ? (uint64_t) (c & 0x7f) << shift : 0;
        if (c < 0x80) {
            *ret = v;
            return p;
        }
    }
    return NULL;
}

uint32_t varint_count_long(const uint8_t *p, size_t n)
{
    uint64_t count = 0;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t last = ~load_u64(p + i) >> 7 & 0x0101010101010101ull;

        count += last * 0x0101010101010101ull >> 56;
    }
    for (; i < n; i++)
        count += p[i] < 0x80;
    return (uint32_t) count;
}
