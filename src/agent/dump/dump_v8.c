/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a frame pointer to the name of a JavaScript function (dump_v8.h).
 *
 * A tagged word is a pointer when its lowest bit is set, else a small integer in its upper half. Frames of V8's own stubs have
 * a small integer, their kind, where those of JavaScript have a context. A function has a SharedFunctionInfo, whose name is a
 * string, or is in its ScopeInfo:
 *
 *   map, flags, parameters, n, [start, end], n names of variables in contexts (or one table of them), n infos, … , name
 */
#include "agent/dump/dump_v8.h"

#include <errno.h>
#include <string.h>

enum {
    WORD = 8,
    TEXT_MAX = 512,
    LOCALS_MAX = 100000,
    LOCALS_INLINE = 75, /* more of them are in a table */
    NAME_FIELDS = 5,    /* fields among which the name is, after the variables */
    PARTS_MAX = 16,     /* of a string */
};

struct v8_reader {
    const struct dump_v8 *v;
    const struct proc_memory *m;
};

int dump_v8_read(const struct v8_symbols *s, uint64_t bias, const struct proc_memory *m, struct dump_v8 *ret)
{
    for (size_t i = 0; i < V8_VALUES_N; i++) {
        int r = proc_memory_read(m, bias + s->at[i], &ret->v[i], sizeof ret->v[i]);

        if (r < 0)
            return r;
        if (ret->v[i] < -4096 || ret->v[i] > 65535)
            return -EBADMSG;
    }
    return 0;
}

static bool is_pointer(uint64_t word)
{
    return (word & 3) == 1;
}

/* A tagged field of an object. */
static uint64_t field(const struct v8_reader *r, uint64_t object, int32_t offset)
{
    uint64_t word = 0;

    return is_pointer(object) && proc_memory_u64(r->m, object - 1 + (uint64_t) (int64_t) offset, &word) ? word : 0;
}

static uint64_t small_integer(uint64_t word)
{
    return word >> 32;
}

/* The type of an object; -1 when it is none. */
static int type_of(const struct v8_reader *r, uint64_t object)
{
    uint64_t map = field(r, object, r->v->v[V8_HEAP_MAP]);
    uint16_t type;

    if (!is_pointer(map) ||
        proc_memory_read(r->m, map - 1 + (uint64_t) (int64_t) r->v->v[V8_MAP_TYPE], &type, sizeof type) < 0)
        return -1;
    return type;
}

static bool is_string(const struct v8_reader *r, uint64_t object)
{
    int type = type_of(r, object);

    return type >= 0 && type < r->v->v[V8_FIRST_NON_STRING];
}

struct v8_text {
    char bytes[TEXT_MAX];
    uint32_t n, parts;
};

/* Characters that are not ASCII become '?'. */
static void add_bytes(struct v8_text *t, const uint8_t *p, uint32_t n, uint32_t width)
{
    for (uint32_t i = 0; i < n && t->n < TEXT_MAX; i++) {
        uint8_t low = p[(size_t) i * width], high = width == 2 ? p[(size_t) i * width + 1] : 0;

        t->bytes[t->n++] = high || low >= 0x7f || low < 0x20 ? '?' : (char) low;
    }
}

static void add_sequential(const struct v8_reader *r, uint64_t s, int type, struct v8_text *t)
{
    uint32_t width = (type & r->v->v[V8_ENCODING_MASK]) == r->v->v[V8_ONE_BYTE_TAG] ? 1 : 2, n = 0;
    uint8_t bytes[2 * TEXT_MAX];

    if (proc_memory_read(r->m, s - 1 + (uint64_t) (int64_t) r->v->v[V8_STRING_LENGTH], &n, sizeof n) < 0)
        return;
    n = MIN(n, TEXT_MAX - t->n);
    if (n &&
        proc_memory_read(r->m, s - 1 + (uint64_t) (int64_t) r->v->v[V8_ONE_BYTE_CHARS], bytes, (size_t) n * width) >= 0)
        add_bytes(t, bytes, n, width);
}

/* Strings of two halves are entered on the left, and the right halves kept. */
static void add_string(const struct v8_reader *r, uint64_t s, struct v8_text *t)
{
    uint64_t later[PARTS_MAX];
    uint32_t n_later = 0;

    for (uint32_t i = 0; i < PARTS_MAX && s; i++) {
        int type = type_of(r, s), how = type & r->v->v[V8_REPRESENTATION_MASK];

        if (type < 0 || type >= r->v->v[V8_FIRST_NON_STRING])
            return;
        if (how == r->v->v[V8_CONS_TAG]) {
            later[n_later++] = field(r, s, r->v->v[V8_CONS_SECOND]);
            s = field(r, s, r->v->v[V8_CONS_FIRST]);
            continue;
        }
        if (how == r->v->v[V8_THIN_TAG]) {
            s = field(r, s, r->v->v[V8_THIN_ACTUAL]);
            continue;
        }
        if (how == r->v->v[V8_SEQUENTIAL_TAG])
            add_sequential(r, s, type, t);
        s = n_later ? later[--n_later] : 0;
    }
}

static uint64_t scope_field(const struct v8_reader *r, uint64_t scope, uint64_t i)
{
    return field(r, scope, (int32_t) (WORD * (i + 1)));
}

static void add_scope_name(const struct v8_reader *r, uint64_t scope, struct v8_text *t)
{
    uint64_t first = (uint64_t) r->v->v[V8_SCOPE_FIRST];
    uint64_t n = small_integer(scope_field(r, scope, (uint64_t) r->v->v[V8_SCOPE_LOCALS]));

    if (n > LOCALS_MAX)
        return;
    if (!is_pointer(scope_field(r, scope, first)) && !is_pointer(scope_field(r, scope, first + 1)))
        first += 2; /* where its text starts and ends */
    first += n <= LOCALS_INLINE ? 2 * n : 1 + n;
    for (uint64_t i = first; i < first + NAME_FIELDS && !t->n; i++)
        if (is_string(r, scope_field(r, scope, i)))
            add_string(r, scope_field(r, scope, i), t);
}

static struct str keep(struct arena *a, const struct v8_text *t)
{
    return t->n ? arena_str(a, (struct str){t->bytes, t->n}) : (struct str){0};
}

bool dump_v8_frame(const struct dump_v8 *v, const struct proc_memory *m, uint64_t fp, struct arena *a,
                   struct dump_v8_frame *ret)
{
    struct v8_reader r = {v, m};
    struct v8_text name = {.n = 0}, file = {.n = 0};
    uint64_t context = 0, function = 0, shared, at, script;

    if (!proc_memory_u64(m, fp + (uint64_t) (int64_t) v->v[V8_FP_CONTEXT], &context) || !is_pointer(context) ||
        !proc_memory_u64(m, fp + (uint64_t) (int64_t) v->v[V8_FP_FUNCTION], &function))
        return false;
    shared = field(&r, function, v->v[V8_FUNCTION_SHARED]);
    if (type_of(&r, shared) != v->v[V8_TYPE_SHARED])
        return false;
    at = field(&r, shared, v->v[V8_SHARED_NAME]);
    if (is_string(&r, at))
        add_string(&r, at, &name);
    else if (type_of(&r, at) == v->v[V8_TYPE_SCOPE])
        add_scope_name(&r, at, &name);
    script = field(&r, shared, v->v[V8_SHARED_SCRIPT]);
    if (type_of(&r, script) == v->v[V8_TYPE_SCRIPT])
        add_string(&r, field(&r, script, v->v[V8_SCRIPT_NAME]), &file);
    if (!name.n && !file.n) /* one of V8's builtins, whose symbol says more */
        return false;
    ret->function = name.n ? keep(a, &name) : STR("(anonymous)");
    ret->file = keep(a, &file);
    return true;
}
