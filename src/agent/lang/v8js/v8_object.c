/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions and their names (v8.h). A frame of V8's own stubs has a small integer, its kind, where one of JavaScript has a context.
 * A function's name is a string, or is in its ScopeInfo:
 *
 *   map, flags, parameters, n, [start, end], n names of variables in contexts (or one table of them), n infos,
 *   [name, info], [name by assignment], [start, end], …
 */
#include <errno.h>
#include <string.h>

#include "agent/lang/v8js/v8.h"
#include "agent/lang/v8js/v8js_abi.h"
#include "base/utf8.h"

enum {
    WORD = 8,
    UNITS_MAX = V8_TEXT, /* of a name: more are left out */
    PARTS_MAX = 16,      /* of a string */
    SCRIPT_ID = WORD,    /* after the line ends */
    SHARED_ID = 4,       /* after the flags */
};

bool v8_is_object(uint64_t word)
{
    return v8_is_pointer(word);
}

uint64_t v8_field(const struct v8_reader *r, uint64_t object, int32_t offset)
{
    uint64_t word = 0;

    return v8_is_pointer(object) && proc_memory_u64(r->m, object - 1 + (uint64_t) (int64_t) offset, &word) ? word : 0;
}

static bool is_small(uint64_t word)
{
    return !(uint32_t) word;
}

int v8_type(const struct v8_reader *r, uint64_t object)
{
    uint64_t map = v8_field(r, object, r->v8->v[V8_HEAP_MAP]);
    uint16_t type;

    if (!v8_is_pointer(map) ||
        proc_memory_read(r->maps, map - 1 + (uint64_t) (int64_t) r->v8->v[V8_MAP_TYPE], &type, sizeof type) < 0)
        return -1;
    return type;
}

/* --- strings --- */
struct v8_text {
    char bytes[UNITS_MAX * 4];
    uint32_t n, units;
    uint32_t high; /* the first half of a pair of surrogates; 0: none */
};

static void put_char(struct v8_text *t, uint32_t c)
{
    t->n = (uint32_t) (utf8_write(t->bytes + t->n, c < 0x20 || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c) - t->bytes);
}

static void put_unit(struct v8_text *t, uint32_t c)
{
    uint32_t high = t->high;

    t->high = 0;
    if (high && c >= 0xdc00 && c < 0xe000) {
        put_char(t, 0x10000 + ((high - 0xd800) << 10) + (c - 0xdc00));
        return;
    }
    if (c >= 0xd800 && c < 0xdc00)
        t->high = c;
    else
        put_char(t, c);
}

static void add_sequential(const struct v8_reader *r, uint64_t s, int type, struct v8_text *t)
{
    uint32_t width = (type & r->v8->v[V8_ENCODING_MASK]) == r->v8->v[V8_ONE_BYTE_TAG] ? 1 : 2, n = 0;
    uint8_t bytes[2 * UNITS_MAX];

    if (proc_memory_read(r->m, s - 1 + (uint64_t) (int64_t) r->v8->v[V8_STRING_LENGTH], &n, sizeof n) < 0)
        return;
    n = MIN(n, UNITS_MAX - t->units);
    if (!n ||
        proc_memory_read(r->m, s - 1 + (uint64_t) (int64_t) r->v8->v[V8_ONE_BYTE_CHARS], bytes, (size_t) n * width) < 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        put_unit(t, width == 1 ? bytes[i] : bytes[2 * i] | (uint32_t) bytes[2 * i + 1] << 8);
    t->units += n;
}

/* Strings of two halves are entered on the left, and the right halves kept. */
static void add_string(const struct v8_reader *r, uint64_t s, struct v8_text *t)
{
    const int32_t *v = r->v8->v;
    uint64_t later[PARTS_MAX];
    uint32_t n_later = 0;

    for (uint32_t i = 0; i < PARTS_MAX && s; i++) {
        int type = v8_type(r, s), how = type & v[V8_REPRESENTATION_MASK];

        if (type < 0 || type >= v[V8_FIRST_NON_STRING])
            return;
        if (how == v[V8_CONS_TAG]) {
            later[n_later++] = v8_field(r, s, v[V8_CONS_SECOND]);
            s = v8_field(r, s, v[V8_CONS_FIRST]);
            continue;
        }
        if (how == v[V8_THIN_TAG]) {
            s = v8_field(r, s, v[V8_THIN_ACTUAL]);
            continue;
        }
        if (how == v[V8_SEQUENTIAL_TAG])
            add_sequential(r, s, type, t);
        s = n_later ? later[--n_later] : 0;
    }
}

static struct str read_string(const struct v8_reader *r, uint64_t s, struct arena *a)
{
    struct v8_text t = {.n = 0};
    int type = a ? v8_type(r, s) : -1;

    if (type < 0 || type >= r->v8->v[V8_FIRST_NON_STRING])
        return (struct str){0};
    add_string(r, s, &t);
    return t.n ? arena_str(a, (struct str){t.bytes, t.n}) : (struct str){0};
}

/* --- functions --- */
static uint64_t scope_field(const struct v8_reader *r, uint64_t scope, uint64_t i)
{
    return v8_field(r, scope, (int32_t) (WORD * (i + 1)));
}

/* Where a function begins: of two small integers, begin and end. What is before them may be one, too. */
static int32_t find_start(const uint64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i + 1 < n; i++)
        if (is_small(v[i]) && is_small(v[i + 1]) && !(i + 2 < n && is_small(v[i + 2])) && v[i] >> 32 <= v[i + 1] >> 32)
            return (int32_t) (v[i] >> 32);
    return -1;
}

static void read_scope(const struct v8_reader *r, uint64_t scope, struct arena *a, struct v8_function *ret)
{
    uint64_t first = (uint64_t) r->v8->v[V8_SCOPE_FIRST], tail[V8_TAIL_NAMES];
    uint64_t n = scope_field(r, scope, (uint64_t) r->v8->v[V8_SCOPE_LOCALS]) >> 32;
    bool starts_first = first >= 5; /* the positions are before the names */

    if (n > V8_LOCALS_MAX)
        return;
    if (starts_first)
        ret->start = (int32_t) (scope_field(r, scope, first - 2) >> 32);
    first += n < V8_LOCALS_INLINE ? 2 * n : 1 + n;
    for (uint32_t i = 0; i < V8_TAIL_NAMES; i++) {
        tail[i] = scope_field(r, scope, first + i);
        if (!ret->name.n && v8_is_pointer(tail[i]))
            ret->name = read_string(r, tail[i], a);
    }
    if (!starts_first)
        ret->start = find_start(tail, V8_TAIL_NAMES);
}

int v8_function_read(const struct v8_reader *r, uint64_t shared, struct arena *a, struct v8_function *ret)
{
    const int32_t *v = r->v8->v;
    uint64_t name, script;
    uint64_t script_id;
    uint32_t id = 0;

    *ret = (struct v8_function){.start = -1};
    if (!v8_is_pointer(shared) || v8_type(r, shared) != v[V8_TYPE_SHARED])
        return -EBADMSG;
    name = v8_field(r, shared, v[V8_SHARED_NAME]);
    script = v8_field(r, shared, v[V8_SHARED_SCRIPT]);
    if (v8_type(r, script) != v[V8_TYPE_SCRIPT] ||
        proc_memory_read(r->m, shared - 1 + (uint64_t) (v[V8_SHARED_FLAGS] + SHARED_ID), &id, sizeof id) < 0)
        return -EBADMSG;
    script_id = v8_field(r, script, v[V8_SCRIPT_LINE_ENDS] + SCRIPT_ID);
    ret->script = script;
    ret->script_id = (uint32_t) (script_id >> 32);
    ret->content = v8_content(name, script, id, script_id);
    if (!a)
        return 0;
    if (v8_type(r, name) == v[V8_TYPE_SCOPE])
        read_scope(r, name, a, ret);
    else
        ret->name = read_string(r, name, a);
    ret->file = read_string(r, v8_field(r, script, v[V8_SCRIPT_NAME]), a);
    return 0;
}

uint64_t v8_shared_of(const struct v8_reader *r, uint64_t function)
{
    uint64_t shared = v8_field(r, function, r->v8->v[V8_FUNCTION_SHARED]);

    return v8_type(r, shared) == r->v8->v[V8_TYPE_SHARED] ? shared : 0;
}
