/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and lines of Java methods (hotspot.h).
 *
 * A table of lines is pairs of distances, in the bytecode and in lines: both in one byte (5 and 3 bits), or after a byte 0xff two
 * numbers with sign; a byte 0 ends it.
 */
#include <errno.h>
#include <string.h>

#include "agent/lang/hotspot/hotspot.h"
#include "agent/lang/hotspot/hotspot_step.h"

enum { LINES_BYTES = 4096, LINES_MAX = 65536 };

uint64_t hotspot_content(const struct hotspot_reader *r, uint64_t method)
{
    __u64 v[16], code;
    __u32 size;

    return hotspot_method_content(r->m, &r->h->at, method, v, &code, &size);
}

bool hotspot_number(const uint8_t **p, const uint8_t *end, bool no_zero, uint32_t *ret)
{
    const uint32_t low = 192 - no_zero;
    uint32_t sum = 0;

    for (int i = 0; i < 5; i++) {
        uint32_t b;

        if (*p == end || (no_zero && !**p))
            return false;
        b = (uint32_t) * (*p)++ - no_zero;
        sum += b << 6 * i;
        if (b < low)
            break;
    }
    *ret = sum;
    return true;
}

/* --- names --- */
static bool read_symbol(const struct hotspot_reader *r, uint64_t at, struct arena *a, struct str *ret)
{
    uint16_t n = 0;
    char *text;

    if (!at || at & 7 || proc_memory_read(r->m, at + r->h->at.symbol_length, &n, sizeof n) < 0 || !n)
        return false;
    n = MIN(n, HOTSPOT_NAME_MAX);
    text = arena_alloc(a, n);
    if (!text || proc_memory_read(r->m, at + r->h->symbol_body, text, n) < 0)
        return false;
    *ret = (struct str){text, n};
    for (uint32_t i = 0; i < n; i++)
        if ((unsigned char) text[i] < ' ')
            return false;
    if (!str_is_utf8(*ret)) /* characters beyond the first plane, in HotSpot's own form; or a long name was cut */
        for (uint32_t i = 0; i < n; i++)
            text[i] = text[i] & 0x80 ? '?' : text[i];
    return true;
}

/* A Symbol of the constant pool. */
static bool read_name(const struct hotspot_reader *r, uint64_t pool, uint16_t index, struct arena *a, struct str *ret)
{
    uint64_t at;

    return index && proc_memory_u64(r->m, pool + r->h->at.pool_size + (uint64_t) index * 8, &at) &&
           read_symbol(r, at & ~1ull, a, ret);
}

static void read_file_name(const struct hotspot_reader *r, uint64_t pool, uint64_t class, struct arena *a,
                           struct str *ret)
{
    uint64_t at = r->h->pool_file ? pool + r->h->pool_file : r->h->class_file ? class + r->h->class_file : 0;
    uint16_t index = 0;

    if (!at || proc_memory_read(r->m, at, &index, sizeof index) < 0 || !read_name(r, pool, index, a, ret))
        *ret = (struct str){0};
}

/* --- lines --- */
static bool signed_number(const uint8_t **p, const uint8_t *end, bool no_zero, int32_t *ret)
{
    uint32_t v;

    if (!hotspot_number(p, end, no_zero, &v))
        return false;
    *ret = (int32_t) (v >> 1) ^ -(int32_t) (v & 1);
    return true;
}

/* The next pair, added to *bci and *line. */
static bool next_line(const uint8_t **p, const uint8_t *end, bool no_zero, int32_t *bci, int32_t *line)
{
    int32_t more_bci, more_lines;
    uint8_t b;

    if (*p == end || !**p)
        return false;
    b = *(*p)++;
    more_bci = b >> 3;
    more_lines = b & 7;
    if (b == 0xff && (!signed_number(p, end, no_zero, &more_bci) || !signed_number(p, end, no_zero, &more_lines)))
        return false;
    return !__builtin_add_overflow(*bci, more_bci, bci) && !__builtin_add_overflow(*line, more_lines, line);
}

static void read_lines(const struct hotspot_reader *r, uint64_t at, int32_t bci, struct hotspot_method *ret)
{
    uint8_t bytes[LINES_BYTES];
    const uint8_t *p = bytes, *end = bytes;
    int32_t here = 0, line = 0, best = -1;
    uint32_t n = sizeof bytes;

    while (n >= 64 && proc_memory_read(r->m, at, bytes, n) < 0) /* it may be at the end of what is mapped */
        n /= 2;
    end += n >= 64 ? n : 0;
    for (uint32_t i = 0; i < LINES_MAX && next_line(&p, end, r->h->major >= 20, &here, &line); i++) {
        if (line <= 0)
            return;
        ret->start_line = ret->start_line ? MIN(ret->start_line, line) : line;
        if (here <= bci && here >= best) {
            best = here;
            ret->line = line;
        }
    }
}

int hotspot_method_read(const struct hotspot_reader *r, uint64_t method, int32_t bci, struct arena *a,
                        struct hotspot_method *ret)
{
    const struct agent_hotspot *at = &r->h->at;
    uint64_t code, pool, class, name, head[8];
    uint16_t size, index, flags;

    *ret = (struct hotspot_method){.line = 0};
    if (!method || method & 7 || !proc_memory_u64(r->m, method + at->method_const, &code) || !code || code & 7 ||
        proc_memory_read(r->m, code, head, sizeof head) < 0)
        return -EBADMSG;
    memcpy(&pool, (uint8_t *) head + at->const_pool, sizeof pool);
    memcpy(&size, (uint8_t *) head + at->const_code, sizeof size);
    memcpy(&index, (uint8_t *) head + at->const_name, sizeof index);
    memcpy(&flags, (uint8_t *) head + r->h->method_lines, sizeof flags);
    if (!pool || pool & 7 || !proc_memory_u64(r->m, pool + at->pool_holder, &class) || !class || class & 7 ||
        !proc_memory_u64(r->m, class + at->class_name, &name) || !read_symbol(r, name, a, &ret->class) ||
        !read_name(r, pool, index, a, &ret->name))
        return -EBADMSG;
    read_file_name(r, pool, class, a, &ret->file);
    if (r->h->method_lines && flags & 1)
        read_lines(r, code + at->const_size + size, bci, ret);
    return 0;
}
