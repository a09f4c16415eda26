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

/* How far ahead rows, which are read in no order of memory, are asked for. */
enum { AHEAD = 16 };

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

        if (i + AHEAD < n)
            __builtin_prefetch(&s->v[order[i + AHEAD].index]);
        order[i].key = (uint64_t) ranks[x->group] << (64 - GROUP_BITS) | id >> GROUP_BITS;
    }
    if (r == 0)
        radix_sort(order, tmp, n);
    mem_free(tmp);
    mem_free(ranks);
    return r;
}

/* --- columns --- */

/* A column that is a field of the rows, as it is in memory (little-endian), and where it is in the block. */
struct field_column {
    size_t offset, size, at;
};

struct sample_columns {
    const struct click_samples *s;
    const struct radix *order;
    uint32_t n;
    struct buf *out;
    struct group_run {
        uint32_t group, n;
    } * runs; /* rows of one group are neighbours */
    uint32_t n_runs;
    struct field_column fields[CLICK_COLUMNS_MAX];
    uint32_t n_fields;
};

static inline const struct click_sample *row_at(const struct sample_columns *x, uint32_t i)
{
    if (i + AHEAD < x->n)
        __builtin_prefetch(&x->s->v[x->order[i + AHEAD].index]);
    return &x->s->v[x->order[i].index];
}

static int find_runs(struct sample_columns *x)
{
    size_t cap = 0;

    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t group = row_at(x, i)->group;

        if (x->n_runs && x->runs[x->n_runs - 1].group == group)
            x->runs[x->n_runs - 1].n++;
        else if (array_push(x->runs, x->n_runs, cap, ROWS_MAX, (struct group_run){group, 1}) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* A column of the groups' strings. */
static void put_texts(struct sample_columns *x, char column)
{
    for (uint32_t i = 0; i < x->n_runs; i++) {
        const struct click_group *g = &x->s->groups[x->runs[i].group];
        struct str text = column == 't' ? g->tenant : column == 's' ? g->service : g->type;
        size_t at = x->out->n, one;

        put_bytes(x->out, text.p, text.n);
        one = x->out->n - at;
        if (!buf_reserve(x->out, one * x->runs[i].n))
            return;
        for (uint32_t k = 1; k < x->runs[i].n; k++)
            memcpy(x->out->p + at + one * k, x->out->p + at, one);
        x->out->n += one * (x->runs[i].n - 1);
    }
}

#define FIELD(name)                                                                           \
    {                                                                                         \
#name, offsetof(struct click_sample, name), sizeof(((struct click_sample *) 0)->name) \
    }

/* Puts a column of strings, or makes room for one of a field. */
static void lay_out_column(struct sample_columns *x, const char *name)
{
    static const struct {
        const char *name;
        size_t offset, size;
    } fields[] = {FIELD(time),
                  FIELD(stack),
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
            size_t bytes = fields[i].size * x->n;

            x->fields[x->n_fields++] = (struct field_column){fields[i].offset, fields[i].size, x->out->n};
            if (buf_reserve(x->out, bytes))
                x->out->n += bytes;
            return;
        }
    put_texts(x, strcmp(name, "tenant") == 0 ? 't' : strcmp(name, "service") == 0 ? 's' : 'y');
}

/* Writes the fields of all rows into the room that was made: each row is read once. */
static void fill_fields(const struct sample_columns *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const char *row = (const char *) row_at(x, i);

        for (uint32_t k = 0; k < x->n_fields; k++) {
            const struct field_column *f = &x->fields[k];
            char *to = x->out->p + f->at + f->size * i;

            if (f->size == 8)
                memcpy(to, row + f->offset, 8);
            else if (f->size == 16)
                memcpy(to, row + f->offset, 16);
            else
                memcpy(to, row + f->offset, f->size);
        }
    }
}

static int encode_rows(struct sample_columns *x, enum click_table t)
{
    uint32_t columns = 0;
    int r = find_runs(x);

    if (r < 0)
        return r;
    while (click_tables[t].columns[columns].name)
        columns++;
    put_varint(x->out, columns);
    put_varint(x->out, x->n);
    for (uint32_t i = 0; i < columns; i++) {
        const struct click_column *c = &click_tables[t].columns[i];

        put_bytes(x->out, c->name, strlen(c->name));
        put_bytes(x->out, c->type, strlen(c->type));
        lay_out_column(x, c->name);
    }
    if (buf_error(x->out))
        return buf_error(x->out);
    fill_fields(x);
    return 1;
}

int click_samples_encode(const struct click_samples *s, enum click_table t, struct buf *out)
{
    bool links = t == CLICK_LINKS;
    uint32_t n = 0;
    _cleanup_(mem_freep) struct radix *order = NULL;
    struct sample_columns x = {.s = s, .out = out};
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
    x.order = order;
    x.n = n;
    r = encode_rows(&x, t);
    mem_free(x.runs);
    return r;
}
