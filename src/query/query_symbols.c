/* SPDX-License-Identifier: Apache-2.0 */
/* query_binaries() of query.h: which binaries of a selection have symbols, and what to do about those that have
 * none. */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/wrap.h"
#include "query/query_names.h"

struct binaries {
    struct query_binaries *out;
    struct map map;
    uint32_t cap;
};

static uint32_t intern(struct binaries *x, const struct frame *f)
{
    struct query_binaries *o = x->out;
    uint64_t h = hash_mix(hash64_str(f->mapping), hash64_str(f->build_id) | 1);

    for (struct map_pos p = map_find(&x->map, h); p.index != MAP_NONE; p = map_next(&x->map, p))
        if (str_eq(o->v[p.index].mapping, f->mapping) && str_eq(o->v[p.index].build_id, f->build_id))
            return p.index;
    if (o->n == x->cap) {
        uint32_t cap = x->cap ? x->cap * 2 : 64;
        struct query_binary *more = arena_alloc(&o->arena, cap * sizeof *more);

        if (!more)
            return TREE_NONE;
        if (o->n)
            memcpy(more, o->v, o->n * sizeof *more);
        o->v = more;
        x->cap = cap;
    }
    o->v[o->n] = (struct query_binary){.mapping = arena_str(&o->arena, f->mapping),
                                       .build_id = arena_str(&o->arena, f->build_id)};
    return map_insert(&x->map, h, o->n) < 0 ? TREE_NONE : o->n++;
}

/* Interpreted frames have no binary and always have a name, so they are not counted. */
static bool has_binary(const struct frame *f)
{
    return f->mapping.n || f->build_id.n || f->address || !f->function.n;
}

static int sum_up(struct binaries *x, const struct store_table *t)
{
    for (uint32_t i = 0; i < t->n_rows; i++) {
        const struct frame *f = store_table_frame(t, i);
        int64_t v = t->rows[i].self[0], named = f->function.n ? v : 0;
        struct query_binary *b;
        uint32_t k;

        x->out->self = wrap_add(x->out->self, v);
        x->out->self_named = wrap_add(x->out->self_named, named);
        if (!has_binary(f))
            continue;
        k = intern(x, f);
        if (k == TREE_NONE)
            return -ENOMEM;
        b = &x->out->v[k];
        b->frames++;
        b->named += f->function.n > 0;
        b->self = wrap_add(b->self, v);
        b->self_named = wrap_add(b->self_named, named);
        if (!b->kind)
            b->kind = f->kind;
    }
    return 0;
}

static int by_unnamed(const void *a, const void *b)
{
    const struct query_binary *x = a, *y = b;
    int64_t dx = wrap_sub(x->self, x->self_named), dy = wrap_sub(y->self, y->self_named);

    if (dx != dy)
        return dx < dy ? 1 : -1;
    if (x->self != y->self)
        return x->self < y->self ? 1 : -1;
    return str_cmp(x->mapping, y->mapping);
}

/* --- advice --- */

struct advice {
    const char *status, *reason, *fix;
};

static struct advice advice_for(const struct query_binary *b)
{
    bool kernel = b->kind == FRAME_KERNEL || str_starts(b->mapping, STR("[kernel"));

    if (b->named == b->frames)
        return (struct advice){"named", "", ""};
    if (kernel)
        return (struct advice){"hidden", "the kernel hides its addresses from the sender",
                               "on the sender's host: sysctl kernel.kptr_restrict=1, and give the agent CAP_SYSLOG"};
    if (!b->mapping.n && !b->build_id.n)
        return (struct advice){
            "unknown", "the sender did not report the binary of these frames",
            "code generated at run time (JIT) requires a perf map or an agent that supports the language"};
    if (!b->build_id.n)
        return (struct advice){b->named ? "partly" : "missing",
                               "the sender reported no build id, so the frames cannot be symbolized later",
                               "link with -Wl,--build-id, or let the sender symbolize frames"};
    return (struct advice){
        b->named ? "partly" : "missing", "the sender did not symbolize these frames, and no symbols were uploaded",
        "wick symbols upload BINARY (or its debug file with this build id); this also symbolizes older profiles"};
}

static void advise(struct query_binary *b)
{
    struct advice a = advice_for(b);

    b->status = a.status;
    b->reason = a.reason;
    b->fix = a.fix;
}

/* --- all of it --- */

int query_binaries(struct store *s, struct query *q, uint32_t limit, struct query_binaries *ret, struct err *e)
{
    struct binaries x = {.out = ret};
    struct store_table t;
    int r;

    *ret = (struct query_binaries){0};
    arena_init(&ret->arena, q->q.memory_limit);
    /* only frames by address keep their binary when they have a name */
    r = named_table(&(struct named_store){s, q->names}, &q->q, &(struct store_table_query){.rows = ROWS_FRAME}, &t, e);
    if (r < 0) {
        arena_done(&ret->arena);
        return r;
    }
    r = sum_up(&x, &t);
    store_table_done(&t);
    map_done(&x.map);
    if (r < 0) {
        arena_done(&ret->arena);
        return r;
    }
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, by_unnamed);
    ret->n_all = ret->n;
    ret->n = MIN(ret->n, limit);
    for (uint32_t i = 0; i < ret->n; i++)
        advise(&ret->v[i]);
    return 0;
}

void query_binaries_done(struct query_binaries *b)
{
    arena_done(&b->arena);
}
