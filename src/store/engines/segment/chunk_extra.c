/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See chunk.h: rows with attributes, links or timestamps into columns.
 *
 * Rows with a timestamp are sorted by lane (the CPU they were taken on, where they say), then by time: a CPU's timer
 * ticks evenly, so all that is left of a timestamp is its jitter. Which profile such a row belongs to follows from its
 * time, nearly always.
 */
#include <errno.h>
#include <stdlib.h>

#include "store/engines/segment/chunk_encoder.h"
#include "store/engines/segment/column.h"

enum { LANES_MAX = 1024, PERIOD_SAMPLES = 1023 };

static int rich_cmp(const void *a, const void *b)
{
    const struct rich *x = a, *y = b;

    if (!x->when != !y->when)
        return x->when ? 1 : -1;
    if (x->when) {
        if (x->lane != y->lane)
            return x->lane < y->lane ? -1 : 1;
        if (x->when != y->when)
            return x->when < y->when ? -1 : 1;
    } else if (x->prof != y->prof) {
        return x->prof < y->prof ? -1 : 1;
    } else if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

static int uint64_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static void end_column(struct chunk_encoder *c)
{
    struct buf *out = &c->raw[SEC_EXTRA];

    if (buf_error(&c->column) < 0)
        buf_reserve(out, SIZE_MAX / 2); /* fails, and the failure sticks */
    else
        column_put(c->zstd, out, c->column.p ? c->column.p : "", c->column.n, 1);
    buf_reset(&c->column);
}

/* --- timestamps --- */

/* The largest of 1, 1000, 1000000 that divides all timestamps. */
static uint64_t find_unit(const struct rich *v, uint32_t n)
{
    uint64_t unit = 1000000;

    for (uint32_t i = 0; i < n; i++)
        while (unit > 1 && v[i].when % unit)
            unit /= 1000;
    return unit;
}

/* The usual distance of two ticks of a lane: the median of some. */
static uint64_t find_period(const struct rich *v, uint32_t n, uint64_t unit)
{
    uint64_t d[PERIOD_SAMPLES];
    uint32_t k = 0, step = n / PERIOD_SAMPLES + 1;

    for (uint32_t i = 1; i < n && k < PERIOD_SAMPLES; i += step)
        if (v[i].lane == v[i - 1].lane)
            d[k++] = (v[i].when - v[i - 1].when) / unit;
    if (!k)
        return 1;
    qsort(d, k, sizeof *d, uint64_cmp);
    return MAX(1, d[k / 2]);
}

/* How many periods to the next tick, and what is left: the nearest multiple, so the rest has a sign. */
static void split(uint64_t delta, uint64_t period, uint64_t *ticks, uint64_t *rest)
{
    *ticks = (delta + period / 2) / period;
    *rest = zigzag((int64_t) (delta - *ticks * period));
}

/* Ticks as a column, then the rest as byte planes: low bytes are noise, high ones nearly constant. */
static void put_timestamps(struct chunk_encoder *c, const struct rich *v, uint32_t n)
{
    struct buf *head = &c->raw[SEC_EXTRA];
    uint64_t unit = find_unit(v, n), period = find_period(v, n, unit), all = 0, ticks, rest, last = 0;
    uint32_t planes = 0, lanes = 0;

    for (uint32_t i = 0; i < n; i++)
        lanes += !i || v[i].lane != v[i - 1].lane;
    put_varint(head, unit);
    put_varint(head, period);
    put_varint(head, lanes);
    for (uint32_t i = 0, from = 0; i < n; i++) {
        uint64_t t = v[i].when / unit;

        if (i + 1 == n || v[i + 1].lane != v[i].lane) {
            put_varint(head, i + 1 - from);
            put_zigzag(head, (int64_t) (v[from].when / unit - last));
            last = v[from].when / unit;
            from = i + 1;
        }
        if (i && v[i].lane == v[i - 1].lane) {
            split(t - v[i - 1].when / unit, period, &ticks, &rest);
            put_varint(&c->column, ticks);
            all |= rest;
        }
    }
    end_column(c);
    while (planes < 8 && all >> (8 * planes))
        planes++;
    put_varint(head, planes);
    for (uint32_t k = 0; k < planes; k++) {
        for (uint32_t i = 1; i < n; i++)
            if (v[i].lane == v[i - 1].lane) {
                split(v[i].when / unit - v[i - 1].when / unit, period, &ticks, &rest);
                buf_putc(&c->column, (char) (rest >> (8 * k)));
            }
        end_column(c);
    }
}

/* --- which profile, which stack --- */

/* Without a timestamp: profiles in order, nodes in order within them. */
static void put_untimed(struct chunk_encoder *c, uint32_t n)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < n; i++) {
        put_varint(&c->column, c->rich[i].prof - last);
        last = c->rich[i].prof;
    }
    end_column(c);
    for (uint32_t i = 0; i < n; i++)
        put_varint(&c->column, c->rich[i].key - (i && c->rich[i - 1].prof == c->rich[i].prof ? c->rich[i - 1].key : 0));
    end_column(c);
}

struct ranked {
    uint32_t entry, rows;
};

static int ranked_cmp(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Entries by how many rows they have: the common ones have small numbers. */
static int put_entries(struct chunk_encoder *c, const struct rich *v, uint32_t n, uint32_t n_entries)
{
    struct ranked *r = arena_zalloc_array(&c->arena, n_entries + 1, sizeof *r);
    uint32_t *rank = arena_zalloc_array(&c->arena, n_entries + 1, sizeof *rank);

    if (!r || !rank)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_entries; i++)
        r[i].entry = i;
    for (uint32_t i = 0; i < n; i++)
        r[v[i].entry].rows++;
    qsort(r, n_entries, sizeof *r, ranked_cmp);
    for (uint32_t i = 0; i < n_entries; i++) {
        rank[r[i].entry] = i;
        put_varint(&c->column, r[i].entry);
    }
    end_column(c);
    for (uint32_t i = 0; i < n; i++)
        put_varint(&c->column, rank[v[i].entry]);
    end_column(c);
    return 0;
}

static int put_timed(struct chunk_encoder *c, struct prof *const *profs, const uint32_t *first, const struct rich *v,
                     uint32_t n, uint32_t n_entries)
{
    int r = put_entries(c, v, n, n_entries);

    for (uint32_t i = 0; i < n; i++)
        put_varint(&c->column, v[i].key);
    end_column(c);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = v[i].entry, lo = first[e], hi = first[e + 1];

        while (hi - lo > 1) { /* the last that begins at or before the timestamp */
            uint32_t mid = (lo + hi) / 2;

            if ((uint64_t) profs[mid]->time_ns <= v[i].when)
                lo = mid;
            else
                hi = mid;
        }
        put_zigzag(&c->column, (int64_t) v[i].prof - lo);
    }
    end_column(c);
    put_timestamps(c, v, n);
    return r;
}

/* --- attributes, links --- */

struct known_set {
    uint64_t place; /* lane, entry */
    uint32_t set, number;
};

/* A row's set is one of those seen before at its entry and lane, by number, or the next of the list of new ones. */
static int put_sets(struct chunk_encoder *c)
{
    _cleanup_(buf_done) struct buf fresh = BUF_INIT;
    struct known_set *known = arena_alloc(&c->arena, (c->n_rich + 1) * sizeof *known);
    uint32_t n = 0, last = 0, *counts;
    struct map places = MAP_INIT;
    int r = 0;

    counts = arena_alloc(&c->arena, (c->n_rich + 1) * sizeof *counts);
    if (!known || !counts)
        return -ENOMEM;
    map_reset(&c->set_map);
    for (uint32_t i = 0; r == 0 && i < c->n_rich; i++) {
        const struct rich *x = &c->rich[i];
        uint64_t place = (uint64_t) (x->when ? x->lane : 0) << 32 | x->entry, ph = hash64_u64(place);
        uint64_t h = hash_mix(ph, hash64_u64(x->extra->attrs));
        struct map_pos p, q;

        for (p = map_find(&c->set_map, h); p.index != MAP_NONE; p = map_next(&c->set_map, p))
            if (known[p.index].place == place && known[p.index].set == x->extra->attrs)
                break;
        if (p.index != MAP_NONE) {
            put_varint(&c->column, known[p.index].number + 1ull);
            continue;
        }
        for (q = map_find(&places, ph); q.index != MAP_NONE; q = map_next(&places, q))
            if (known[q.index].place == place)
                break;
        if (q.index == MAP_NONE) {
            r = map_insert(&places, ph, n);
            q.index = n;
            counts[n] = 0;
        }
        known[n] = (struct known_set){place, x->extra->attrs, counts[q.index]++};
        if (r == 0)
            r = map_insert(&c->set_map, h, n);
        n++;
        put_varint(&c->column, 0);
        put_zigzag(&fresh, (int64_t) x->extra->attrs - last);
        last = x->extra->attrs;
    }
    map_done(&places);
    end_column(c);
    buf_put(&c->column, fresh.p, fresh.n);
    end_column(c);
    return r < 0 ? r : buf_error(&fresh);
}

static int find_link(struct chunk_encoder *c, const struct chunk_hooks *hooks, const struct link *l, uint32_t *ret)
{
    uint64_t h = hash64(l, sizeof *l);

    for (struct map_pos p = map_find(&c->link_map, h); p.index != MAP_NONE; p = map_next(&c->link_map, p))
        if (memcmp(&c->links[p.index], l, sizeof *l) == 0) {
            *ret = p.index;
            return 0;
        }
    if (mem_grow((void **) &c->links, &c->cap_links, (size_t) c->n_links + 1, sizeof *c->links, UINT32_MAX) < 0 ||
        mem_grow((void **) &c->link_traces, &c->cap_link_traces, (size_t) c->n_links + 1, sizeof *c->link_traces,
                 UINT32_MAX) < 0 ||
        map_insert(&c->link_map, h, c->n_links) < 0)
        return -ENOMEM;
    c->links[c->n_links] = *l;
    c->link_traces[c->n_links] = hooks->trace(hooks->ctx, l->trace_id);
    if (c->link_traces[c->n_links] == UINT32_MAX)
        return -ENOMEM;
    *ret = c->n_links++;
    return 0;
}

/* 0 none, 1 the next new one, 2 the newest known one, and so on back. */
static int put_link_refs(struct chunk_encoder *c, const struct chunk_hooks *hooks)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < c->n_rich; i++) {
        uint32_t k, known = c->n_links;

        if (!c->rich[i].extra->has_link) {
            put_varint(&c->column, 0);
            continue;
        }
        r = find_link(c, hooks, &c->rich[i].extra->link, &k);
        if (r == 0)
            put_varint(&c->column, known - k + 1ull);
    }
    end_column(c);
    return r;
}

static int put_links(struct chunk_encoder *c, struct chunk_out *out)
{
    struct buf *b = &c->raw[SEC_LINKS];
    uint32_t last = 0, n = 0;

    if (!c->n_links)
        return 0;
    if (mem_grow((void **) &out->traces, &out->cap_traces, c->n_links, sizeof *out->traces, UINT32_MAX) < 0)
        return -ENOMEM;
    buf_reset(&c->column);
    for (uint32_t i = 0; i < c->n_links; i++) {
        put_zigzag(&c->column, (int64_t) c->link_traces[i] - last);
        last = out->traces[n++] = c->link_traces[i];
    }
    out->n_traces = n;
    put_varint(b, c->n_links);
    column_put(c->zstd, b, c->column.p, c->column.n, 1);
    buf_reset(&c->column);
    for (uint32_t i = 0; i < c->n_links; i++)
        buf_put(&c->column, c->links[i].span_id, 8);
    column_put(c->zstd, b, c->column.p, c->column.n, 1);
    return buf_error(&c->column);
}

int chunk_put_extra(struct chunk_encoder *c, const struct chunk_hooks *hooks, struct prof *const *profs,
                    const uint32_t *first, uint32_t n_entries, struct chunk_out *out)
{
    struct buf *b = &c->raw[SEC_EXTRA];
    uint32_t untimed = 0;
    int r = 0;

    if (!c->n_rich)
        return 0;
    for (uint32_t i = 0; i < c->n_rich; i++) {
        c->rich[i].lane = c->rich[i].when ? MIN(hooks->lane(hooks->ctx, c->rich[i].extra->attrs), LANES_MAX - 1u) : 0;
        c->rich[i].prof += first[c->rich[i].entry];
        untimed += !c->rich[i].when;
    }
    qsort(c->rich, c->n_rich, sizeof *c->rich, rich_cmp);
    buf_reset(&c->column);
    put_varint(b, c->n_rich);
    put_varint(b, untimed);
    if (untimed)
        put_untimed(c, untimed);
    if (untimed < c->n_rich)
        r = put_timed(c, profs, first, c->rich + untimed, c->n_rich - untimed, n_entries);
    for (uint32_t i = 0; i < c->n_rich; i++)
        put_zigzag(&c->column, c->rich[i].value);
    end_column(c);
    if (r == 0)
        r = put_sets(c);
    if (r == 0)
        r = put_link_refs(c, hooks);
    return r < 0 ? r : put_links(c, out);
}
