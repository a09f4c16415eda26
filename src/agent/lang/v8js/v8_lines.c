/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a script: V8 keeps the source as one string, and where its lines end only once it was asked. */
#include <errno.h>
#include <string.h>

#include "agent/lang/v8js/v8.h"
#include "base/mem.h"

enum { CHUNK = 64 << 10, WORD = 8 };

struct v8_source {
    uint64_t at; /* of the characters */
    uint32_t n, width;
};

static bool find_source(const struct v8_reader *r, uint64_t s, struct v8_source *ret)
{
    const int32_t *v = r->v8->v;
    int type = v8_type(r, s), how;

    if (type >= 0 && type < v[V8_FIRST_NON_STRING] && (type & v[V8_REPRESENTATION_MASK]) == v[V8_THIN_TAG]) {
        s = v8_field(r, s, v[V8_THIN_ACTUAL]);
        type = v8_type(r, s);
    }
    how = type & v[V8_REPRESENTATION_MASK];
    if (type < 0 || type >= v[V8_FIRST_NON_STRING] ||
        proc_memory_read(r->m, s - 1 + (uint64_t) v[V8_STRING_LENGTH], &ret->n, sizeof ret->n) < 0)
        return false;
    ret->width = (type & v[V8_ENCODING_MASK]) == v[V8_ONE_BYTE_TAG] ? 1 : 2;
    if (how == v[V8_SEQUENTIAL_TAG])
        ret->at = s - 1 + (uint64_t) v[V8_ONE_BYTE_CHARS];
    else if (how == v[V8_EXTERNAL_TAG]) /* the resource, and where its characters are */
        ret->at = v8_field(r, s, v[V8_EXTERNAL_RESOURCE] + WORD);
    else
        return false;
    return ret->at && (uint64_t) ret->n * ret->width <= V8_SOURCE_MAX;
}

/* Ends of lines as JavaScript has them: \n, \r, \r\n, U+2028, U+2029. */
static int find_ends(const uint8_t *p, uint32_t n, uint32_t width, uint32_t first, uint32_t *last, struct v8_lines *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = width == 1 ? p[i] : p[2 * i] | (uint32_t) p[2 * i + 1] << 8;
        bool ends = c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029;

        if (ends && c == '\n' && *last == '\r') /* its line has ended */
            ret->ends[ret->n - 1] = first + i;
        else if (ends && array_push(ret->ends, ret->n, ret->cap, V8_LINES_MAX, first + i) < 0)
            return -ENOMEM;
        *last = c;
    }
    return 0;
}

int v8_lines_read(const struct v8_reader *r, uint64_t script, struct v8_lines *ret)
{
    _cleanup_(mem_freep) uint8_t *chunk = mem_zalloc(CHUNK);
    uint64_t string = v8_field(r, script, r->v8->v[V8_SCRIPT_SOURCE]);
    struct v8_lines l = {.offset = (int32_t) (v8_field(r, script, r->v8->v[V8_SCRIPT_NAME] + WORD) >> 32)};
    struct v8_source s;
    uint32_t last = 0, count;
    int e = chunk ? 0 : -ENOMEM;

    if (!find_source(r, string, &s))
        return -EBADMSG;
    for (uint32_t i = 0; i < s.n && e == 0; i += count) {
        count = MIN(s.n - i, CHUNK / s.width);
        e = proc_memory_read(r->m, s.at + (uint64_t) i * s.width, chunk, (size_t) count * s.width);
        if (e >= 0)
            e = find_ends(chunk, count, s.width, i, &last, &l);
    }
    if (e == 0 && v8_field(r, script, r->v8->v[V8_SCRIPT_SOURCE]) != string)
        e = -EAGAIN;
    if (e < 0) {
        mem_free(l.ends);
        return e;
    }
    *ret = l;
    return 0;
}

int64_t v8_line(const struct v8_lines *l, int32_t position)
{
    size_t lo = 0, hi = l->n;

    if (position < 0)
        return 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (l->ends[mid] < (uint32_t) position)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (int64_t) lo + 1 + l->offset;
}
