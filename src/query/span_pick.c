/* SPDX-License-Identifier: Apache-2.0 */
/* Collects spans from the index, finds their descendants, and divides them into slow ones and others; see span_pick.h. */
#include "query/span_pick.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

/* What is known about the side of a span: 0 or 1 is its side. */
enum { NO_SIDE = 2, NO_ANCESTOR, ON_PATH };
enum { FAMILY_MAX = 2 * SPAN_PICKS_MAX };
#define AFTER_PARENT (3600 * NS_PER_S)
#define BEFORE_PARENT NS_PER_S /* clocks of two machines may differ */

void span_picks_done(struct span_picks *p)
{
    mem_free(p->v);
    *p = (struct span_picks){0};
}

/* Whether a trace is among one in `one_in`. */
static bool is_in_sample(const struct link *l, uint32_t one_in)
{
    return one_in == 1 || !(hash64(l->trace_id, sizeof l->trace_id) >> 40 & (one_in - 1));
}

static void thin_out(struct span_picks *p)
{
    uint32_t n = 0;

    p->one_in *= 2;
    for (uint32_t i = 0; i < p->n; i++)
        if (is_in_sample(&p->v[i].link, p->one_in))
            p->v[n++] = p->v[i];
    p->n = n;
}

static int add_pick(struct span_picks *p, const struct span_row *s, uint8_t side)
{
    while (p->n >= SPAN_PICKS_MAX && p->one_in < 1u << 20)
        thin_out(p);
    if (!is_in_sample(&s->link, p->one_in))
        return 0;
    return array_push(p->v, p->n, p->cap, SPAN_PICKS_MAX, (struct span_pick){s->link, s->start, s->duration, side});
}

static int collect_one(void *ctx, const struct span_row *s)
{
    return add_pick(ctx, s, 0);
}

int span_picks_collect(struct span_index *x, const struct span_filter *f, struct span_picks *ret, struct err *e)
{
    int r;

    *ret = (struct span_picks){.one_in = 1};
    r = span_index_each(x, f, collect_one, ret, e);
    if (r < 0)
        span_picks_done(ret);
    return r;
}

/* --- descendants --- */

struct kin {
    struct link link;
    uint8_t parent[8];
    int64_t start, duration;
    uint8_t side; /* NO_SIDE: not known yet; NO_ANCESTOR: it has none of the picked spans above it */
    bool picked;
};

struct family {
    struct span_picks *p;
    struct map traces; /* of p->v */
    struct kin *v;     /* all spans of these traces */
    uint32_t n;
    size_t cap;
    struct map spans; /* of v */
};

static bool has_trace(const struct family *f, const struct link *l)
{
    for (struct map_pos at = map_find(&f->traces, hash64(l->trace_id, 16)); at.index != MAP_NONE;
         at = map_next(&f->traces, at))
        if (memcmp(f->p->v[at.index].link.trace_id, l->trace_id, 16) == 0)
            return true;
    return false;
}

static struct kin *find_kin(const struct family *f, const struct link *l)
{
    for (struct map_pos at = map_find(&f->spans, hash64(l, sizeof *l)); at.index != MAP_NONE;
         at = map_next(&f->spans, at))
        if (memcmp(&f->v[at.index].link, l, sizeof *l) == 0)
            return &f->v[at.index];
    return NULL;
}

static int add_kin(void *ctx, const struct span_row *s)
{
    struct family *f = ctx;
    struct kin k = {.link = s->link, .start = s->start, .duration = s->duration, .side = NO_SIDE};
    int r;

    if (!has_trace(f, &s->link) || find_kin(f, &s->link))
        return 0;
    memcpy(k.parent, s->parent, sizeof k.parent);
    r = array_push(f->v, f->n, f->cap, FAMILY_MAX, k);
    return r < 0 ? r : map_insert(&f->spans, hash64(&k.link, sizeof k.link), f->n - 1);
}

static struct kin *parent_of(const struct family *f, const struct kin *k)
{
    struct link parent = k->link;

    memcpy(parent.span_id, k->parent, sizeof parent.span_id);
    return find_kin(f, &parent);
}

/* Finds the side of a span: that of the nearest span above it whose side is known. Every span on the way gets the same
 * one, so that each is passed once, however long the chains are. A circle has no side. */
static void find_side(const struct family *f, struct kin *k)
{
    uint8_t side = NO_ANCESTOR;
    struct kin *p = k;

    for (; p && p->side == NO_SIDE; p = parent_of(f, p))
        p->side = ON_PATH;
    if (p && p->side != ON_PATH)
        side = p->side;
    for (p = k; p && p->side == ON_PATH; p = parent_of(f, p))
        p->side = side;
}

static int index_picks(struct family *f, int64_t *ret_from, int64_t *ret_to)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < f->p->n; i++) {
        const struct span_pick *p = &f->p->v[i];

        *ret_from = MIN(*ret_from, p->start - BEFORE_PARENT);
        *ret_to = MAX(*ret_to, MIN(p->start, CLOCK_MAX / 2) + MIN(p->duration, CLOCK_MAX / 4) + AFTER_PARENT);
        if (!has_trace(f, &p->link))
            r = map_insert(&f->traces, hash64(p->link.trace_id, 16), i);
    }
    return r;
}

/* The picks' own sides, then those of all others. */
static int add_family(struct family *f)
{
    uint32_t own = f->p->n;
    int r = 0;

    for (uint32_t i = 0; i < own; i++) {
        struct kin *k = find_kin(f, &f->p->v[i].link);

        if (k) {
            k->side = f->p->v[i].side;
            k->picked = true;
        }
    }
    for (uint32_t i = 0; r == 0 && i < f->n; i++) {
        struct kin *k = &f->v[i];

        if (k->picked)
            continue;
        if (k->side == NO_SIDE)
            find_side(f, k);
        if (k->side < NO_SIDE)
            r = array_push(f->p->v, f->p->n, f->p->cap, FAMILY_MAX,
                           (struct span_pick){k->link, k->start, k->duration, k->side});
    }
    return r;
}

int span_picks_children(struct span_index *x, const char *tenant, struct span_picks *p, const atomic_bool *cancel,
                        struct err *e)
{
    struct span_filter filter = {.tenant = tenant, .from = INT64_MAX, .to = INT64_MIN, .cancel = cancel};
    struct family f = {.p = p};
    int r;

    if (!p->n)
        return 0;
    r = index_picks(&f, &filter.from, &filter.to);
    if (r == 0)
        r = span_index_each(x, &filter, add_kin, &f, e);
    if (r == 0)
        r = add_family(&f);
    if (r == -E2BIG)
        r = err_set(e, r, "the traces have too many spans: use a shorter time range");
    map_done(&f.traces);
    map_done(&f.spans);
    mem_free(f.v);
    return r;
}

/* --- slow ones --- */

static int slowest_first(const void *a, const void *b)
{
    const struct span_pick *x = a, *y = b;

    if (x->duration != y->duration)
        return x->duration < y->duration ? 1 : -1;
    return memcmp(&x->link, &y->link, sizeof x->link);
}

uint32_t span_picks_slowest(struct span_picks *p, double percent)
{
    uint32_t n = p->n ? (uint32_t) MIN(MAX(ceil(p->n * percent / 100), 1.0), (double) p->n) : 0;

    if (p->n)
        qsort(p->v, p->n, sizeof *p->v, slowest_first);
    for (uint32_t i = 0; i < p->n; i++)
        p->v[i].side = i < n;
    return n;
}
