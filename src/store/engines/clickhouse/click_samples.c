/* SPDX-License-Identifier: Apache-2.0 */
/* Collects, sorts and encodes the rows of samples; see click_samples.h. The orders are those of click_tables.c. */
#include "store/engines/clickhouse/click_samples.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/engines/segment/format/radix.h"

enum { GROUPS_MAX = 1 << 24, ROWS_MAX = 1 << 28, GROUP_BITS = 24 };
#define HOUR_NS (3600 * NS_PER_S)

void click_samples_init(struct click_samples *s)
{
    *s = (struct click_samples){0};
    arena_init(&s->arena, 0);
}

void click_samples_done(struct click_samples *s)
{
    mem_free(s->v);
    mem_free(s->groups);
    map_done(&s->map);
    arena_done(&s->arena);
    *s = (struct click_samples){0};
}

void click_samples_reset(struct click_samples *s)
{
    s->n = s->n_linked = s->n_groups = 0;
    map_reset(&s->map);
    arena_done(&s->arena);
    arena_init(&s->arena, 0);
}

static bool same_group(const struct click_group *a, const struct click_group *b)
{
    return a->hour == b->hour && str_eq(a->service, b->service) && str_eq(a->type, b->type) &&
           str_eq(a->tenant, b->tenant);
}

int click_samples_group(struct click_samples *s, const struct click_group *names, int64_t time, uint32_t *ret)
{
    struct click_group g = *names;
    uint64_t h;
    int r;

    g.hour = time / HOUR_NS;
    h = hash_mix(hash64_str(g.service) ^ (uint64_t) g.hour, hash64_str(g.tenant) ^ hash64_str(g.type) << 1);
    for (struct map_pos p = map_find(&s->map, h); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (same_group(&s->groups[p.index], &g)) {
            *ret = p.index;
            return 0;
        }
    g.tenant = arena_str(&s->arena, g.tenant);
    g.service = arena_str(&s->arena, g.service);
    g.type = arena_str(&s->arena, g.type);
    if (s->arena.failed)
        return -ENOMEM;
    r = array_reserve(s->groups, s->cap_groups, (size_t) s->n_groups + 1, GROUPS_MAX);
    if (r == 0)
        r = map_insert(&s->map, h, s->n_groups);
    if (r < 0)
        return -ENOMEM;
    *ret = s->n_groups;
    s->groups[s->n_groups++] = g;
    return 0;
}

int click_samples_add(struct click_samples *s, const struct click_sample *row)
{
    int r = array_push(s->v, s->n, s->cap, ROWS_MAX, *row);

    if (r == 0)
        s->n_linked += row->linked;
    return r < 0 ? -ENOMEM : 0;
}

/* --- order --- */

static int cmp_groups(const void *a, const void *b)
{
    const struct click_group *x = *(const struct click_group *const *) a, *y = *(const struct click_group *const *) b;
    int r = str_cmp(x->tenant, y->tenant);

    r = r ? r : str_cmp(x->service, y->service);
    r = r ? r : str_cmp(x->type, y->type);
    return r ? r : (x->hour > y->hour) - (x->hour < y->hour);
}

/* The place of each group in the order; for links only the tenant counts. NULL without memory. */
static uint32_t *rank_groups(const struct click_samples *s, bool tenants)
{
    const struct click_group **order = mem_zalloc_array((size_t) s->n_groups + 1, sizeof(struct click_group *));
    uint32_t *ranks = mem_zalloc_array((size_t) s->n_groups + 1, sizeof *ranks), rank = 0;

    if (!order || !ranks) {
        mem_free(order);
        mem_free(ranks);
        return NULL;
    }
    for (uint32_t i = 0; i < s->n_groups; i++)
        order[i] = &s->groups[i];
    if (s->n_groups)
        qsort(order, s->n_groups, sizeof(struct click_group *), cmp_groups);
    for (uint32_t i = 0; i < s->n_groups; i++) {
        rank += i && (!tenants || !str_eq(order[i]->tenant, order[i - 1]->tenant));
        ranks[order[i] - s->groups] = rank;
    }
    mem_free(order);
    return ranks;
}

/* The first bytes of a FixedString as a number of the same order. */
static uint64_t first_bytes(const void *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

/* Rows in the order of the table, as far as the first 40 bits of a stack or a trace tell it; what two of them have in common beyond that, the
 * server sorts. Stable. */
static int sort_rows(const struct click_samples *s, bool links, struct radix *order, uint32_t n)
{
    struct radix *tmp = mem_zalloc_array((size_t) n + 1, sizeof *tmp);
    uint32_t *ranks = rank_groups(s, links);
    int r = tmp && ranks ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < n; i++)
        order[i].key = radix_signed(s->v[order[i].index].time);
    if (r == 0)
        radix_sort(order, tmp, n);
    for (uint32_t i = 0; r == 0 && links && i < n; i++)
        order[i].key = first_bytes(s->v[order[i].index].link.span_id);
    if (r == 0 && links)
        radix_sort(order, tmp, n);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        const struct click_sample *x = &s->v[order[i].index];
        uint64_t id = links ? first_bytes(x->link.trace_id) : __builtin_bswap64(x->stack.hi);

        order[i].key = (uint64_t) ranks[x->group] << (64 - GROUP_BITS) | id >> GROUP_BITS;
    }
    if (r == 0)
        radix_sort(order, tmp, n);
    mem_free(tmp);
    mem_free(ranks);
    return r;
}

/* --- columns --- */

struct sample_columns {
    const struct click_samples *s;
    const struct radix *order;
    uint32_t n;
    struct buf *out;
};

static struct str text_of(const struct click_group *g, char column)
{
    return column == 't' ? g->tenant : column == 's' ? g->service : g->type;
}

/* A column of the group's strings; rows of one group are neighbours. */
static void put_texts(struct sample_columns *x, char column)
{
    for (uint32_t i = 0, end; i < x->n; i = end) {
        uint32_t group = x->s->v[x->order[i].index].group;
        struct str text = text_of(&x->s->groups[group], column);
        size_t at = x->out->n, one;

        put_bytes(x->out, text.p, text.n);
        one = x->out->n - at;
        for (end = i + 1; end < x->n && x->s->v[x->order[end].index].group == group; end++)
            ;
        if (buf_reserve(x->out, one * (end - i))) {
            for (uint32_t k = i + 1; k < end; k++)
                memcpy(x->out->p + at + one * (k - i), x->out->p + at, one);
            x->out->n += one * (end - i - 1);
        }
    }
}

/* A column that is a field of the rows, as it is in memory (little-endian). */
static void put_field(struct sample_columns *x, size_t offset, size_t size)
{
    char *to = buf_reserve(x->out, size * x->n);

    if (!to)
        return;
    for (uint32_t i = 0; i < x->n; i++, to += size) {
        const char *from = (const char *) &x->s->v[x->order[i].index] + offset;

        if (size == 8)
            memcpy(to, from, 8);
        else if (size == 16)
            memcpy(to, from, 16);
        else
            memcpy(to, from, size);
    }
    x->out->n += size * x->n;
}

static void put_stacks(struct sample_columns *x)
{
    char *to = buf_reserve(x->out, 16 * (size_t) x->n);

    if (!to)
        return;
    for (uint32_t i = 0; i < x->n; i++, to += 16) {
        memcpy(to, &x->s->v[x->order[i].index].stack.hi, 8);
        memcpy(to + 8, &x->s->v[x->order[i].index].stack.lo, 8);
    }
    x->out->n += 16 * (size_t) x->n;
}

#define FIELD(name)                                                                           \
    {                                                                                         \
#name, offsetof(struct click_sample, name), sizeof(((struct click_sample *) 0)->name) \
    }

static void put_sample_column(struct sample_columns *x, const char *name)
{
    static const struct {
        const char *name;
        size_t offset, size;
    } fields[] = {FIELD(time),
                  FIELD(series),
                  FIELD(meta),
                  FIELD(seq),
                  FIELD(attrs),
                  FIELD(linked),
                  {"trace", offsetof(struct click_sample, link.trace_id), 16},
                  {"span", offsetof(struct click_sample, link.span_id), 8},
                  FIELD(ts),
                  FIELD(value)};

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        if (strcmp(fields[i].name, name) == 0) {
            put_field(x, fields[i].offset, fields[i].size);
            return;
        }
    if (strcmp(name, "stack") == 0)
        put_stacks(x);
    else
        put_texts(x, strcmp(name, "tenant") == 0 ? 't' : strcmp(name, "service") == 0 ? 's' : 'y');
}

int click_samples_encode(const struct click_samples *s, enum click_table t, struct buf *out)
{
    bool links = t == CLICK_LINKS;
    uint32_t n = 0, columns = 0;
    _cleanup_(mem_freep) struct radix *order = NULL;
    int r;

    if (!(links ? s->n_linked : s->n))
        return 0;
    order = mem_zalloc_array((size_t) s->n + 1, sizeof *order);
    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n; i++)
        if (!links || s->v[i].linked)
            order[n++].index = i;
    r = sort_rows(s, links, order, n);
    if (r < 0)
        return r;
    while (click_tables[t].columns[columns].name)
        columns++;
    put_varint(out, columns);
    put_varint(out, n);
    for (uint32_t i = 0; i < columns; i++) {
        const struct click_column *c = &click_tables[t].columns[i];

        put_bytes(out, c->name, strlen(c->name));
        put_bytes(out, c->type, strlen(c->type));
        put_sample_column(&(struct sample_columns){s, order, n, out}, c->name);
    }
    return buf_error(out) ? buf_error(out) : 1;
}
