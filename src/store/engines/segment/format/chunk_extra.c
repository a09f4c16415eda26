/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes rows with attributes, links or timestamps as columns; see chunk.h.
 *
 * Rows with a timestamp are sorted by lane (the CPU they were taken on, if known), then by time: a CPU's timer ticks
 * evenly, so only the jitter of a timestamp has to be stored. The profile that such a row belongs to nearly always
 * follows from its time.
 */
#include <errno.h>
#include <stdlib.h>

#include "store/engines/segment/format/chunk_encoder.h"
#include "store/engines/segment/format/column.h"
#include "store/engines/segment/format/radix.h"

enum { LANES_MAX = 1024, PERIOD_SAMPLES = 1023 };

static int uint64_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

/* Makes room for n varints in the column. Returns NULL when memory runs out, which sets the column's sticky error. */
static unsigned char *begin_varints(struct chunk_encoder *c, size_t n)
{
    return (unsigned char *) buf_reserve(&c->column, n * 10 + 1);
}

static void end_varints(struct chunk_encoder *c, const unsigned char *end)
{
    if (end)
        c->column.n = (size_t) ((const char *) end - c->column.p);
}

static void end_column(struct chunk_encoder *c)
{
    struct buf *out = &c->raw[SEC_EXTRA];

    column_put(c->zstd, out, &c->column, 1);
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

/* The usual distance between two ticks of a lane: the median of a sample. */
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

/* Splits a distance into a number of periods and a remainder. The nearest multiple is used, so the remainder is
 * signed. */
static uint64_t split(uint64_t delta, uint64_t period, uint64_t *rest)
{
    uint64_t x = delta + period / 2, ticks = x < period ? 0 : x - period < period ? 1 : x / period;

    *rest = zigzag((int64_t) (delta - ticks * period));
    return ticks;
}

/* Writes per lane its number of rows, and its first timestamp relative to the previous lane's. */
static void put_lanes(struct buf *head, const struct rich *v, uint32_t n, uint64_t unit)
{
    uint64_t last = 0;
    uint32_t lanes = 0;

    for (uint32_t i = 0; i < n; i++)
        lanes += !i || v[i].lane != v[i - 1].lane;
    put_varint(head, lanes);
    for (uint32_t i = 0, from = 0; i < n; i++)
        if (i + 1 == n || v[i + 1].lane != v[i].lane) {
            put_varint(head, i + 1 - from);
            put_zigzag(head, (int64_t) (v[from].when / unit - last));
            last = v[from].when / unit;
            from = i + 1;
        }
}

/* Writes ticks as a column, then the remainders as byte planes: low bytes are noise, high ones nearly constant. */
static int put_timestamps(struct chunk_encoder *c, const struct rich *v, uint32_t n)
{
    struct buf *head = &c->raw[SEC_EXTRA];
    uint64_t unit = find_unit(v, n), period = find_period(v, n, unit), all = 0;
    uint64_t *rest = arena_alloc(&c->arena, (n + 1) * sizeof *rest);
    unsigned char *w = begin_varints(c, n);
    uint32_t planes = 0, k = 0;

    if (!rest || !w)
        return -ENOMEM;
    put_varint(head, unit);
    put_varint(head, period);
    put_lanes(head, v, n, unit);
    for (uint32_t i = 1; i < n; i++)
        if (v[i].lane == v[i - 1].lane) {
            uint64_t delta = v[i].when - v[i - 1].when;

            w = varint_write(w, split(unit == 1 ? delta : delta / unit, period, &rest[k]));
            all |= rest[k++];
        }
    end_varints(c, w);
    end_column(c);
    while (planes < 8 && all >> (8 * planes))
        planes++;
    put_varint(head, planes);
    for (uint32_t p = 0; p < planes; p++) {
        w = begin_varints(c, n);
        for (uint32_t i = 0; w && i < k; i++)
            *w++ = (unsigned char) (rest[i] >> (8 * p));
        end_varints(c, w);
        end_column(c);
    }
    return 0;
}

/* --- which profile, which stack --- */

/* Rows without a timestamp: profiles in order, nodes in order within them. */
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

/* Ranks entries by their number of rows, so that common ones have small numbers. */
static int put_entries(struct chunk_encoder *c, const struct rich *v, uint32_t n, uint32_t n_entries)
{
    struct ranked *r = arena_zalloc_array(&c->arena, n_entries + 1, sizeof *r);
    uint32_t *rank = arena_zalloc_array(&c->arena, n_entries + 1, sizeof *rank);
    unsigned char *w;

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
    w = begin_varints(c, n);
    for (uint32_t i = 0; w && i < n; i++)
        w = varint_write(w, rank[v[i].entry]);
    end_varints(c, w);
    end_column(c);
    return 0;
}

/* Writes the profile of each row, relative to the last profile of the entry that begins at or before the timestamp.
 * Time increases within a lane, so the search continues where it left off. */
static int put_profs(struct chunk_encoder *c, struct stored_profile *const *profs, const uint32_t *first,
                     const struct rich *v, uint32_t n, uint32_t n_entries)
{
    uint64_t *times = arena_alloc(&c->arena, (first[n_entries] + 1) * sizeof *times);
    uint32_t *at = arena_alloc(&c->arena, (n_entries + 1) * sizeof *at);
    unsigned char *w = begin_varints(c, n);

    if (!times || !at || !w)
        return -ENOMEM;
    for (uint32_t i = 0; i < first[n_entries]; i++)
        times[i] = (uint64_t) profs[i]->time_ns;
    memcpy(at, first, n_entries * sizeof *at);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = v[i].entry, k = at[e];

        if (times[k] > v[i].when)
            k = first[e];
        while (k + 1 < first[e + 1] && times[k + 1] <= v[i].when)
            k++;
        at[e] = k;
        w = varint_write(w, zigzag((int64_t) v[i].prof - k));
    }
    end_varints(c, w);
    end_column(c);
    return 0;
}

static int put_timed(struct chunk_encoder *c, struct stored_profile *const *profs, const uint32_t *first,
                     const struct rich *v, uint32_t n, uint32_t n_entries)
{
    int r = put_entries(c, v, n, n_entries);
    unsigned char *w = begin_varints(c, n);

    for (uint32_t i = 0; w && i < n; i++)
        w = varint_write(w, v[i].key);
    end_varints(c, w);
    end_column(c);
    if (r == 0)
        r = put_profs(c, profs, first, v, n, n_entries);
    return r < 0 ? r : put_timestamps(c, v, n);
}

/* --- attributes, links --- */

struct known_set {
    uint64_t place; /* lane, entry */
    uint32_t set, number;
};

/* How many sets are known at a lane and entry; for one lane at a time, as rows are sorted by lane. */
struct place_count {
    uint32_t lane, n;
};

/* A row's set is either one of those seen before at its entry and lane, by number, or the next one in the list of new
 * sets. */
static int put_sets(struct chunk_encoder *c, uint32_t n_entries)
{
    _cleanup_(buf_done) struct buf fresh = BUF_INIT;
    struct known_set *known = arena_alloc(&c->arena, (c->n_rich + 1) * sizeof *known);
    struct place_count *counts = arena_zalloc_array(&c->arena, n_entries + 1, sizeof *counts);
    unsigned char *w = begin_varints(c, c->n_rich);
    uint32_t n = 0, last = 0;
    int r = known && counts && w ? 0 : -ENOMEM;

    map_reset(&c->set_map);
    for (uint32_t i = 0; r == 0 && i < c->n_rich; i++) {
        const struct rich *x = &c->rich[i];
        uint32_t lane = x->when ? x->lane : 0, set = x->set;
        uint64_t place = (uint64_t) lane << 32 | x->entry, h = hash_mix(hash64_u64(place), set + hash_seed);
        struct place_count *count = &counts[x->entry];
        struct map_pos p;

        for (p = map_find(&c->set_map, h); p.index != MAP_NONE; p = map_next(&c->set_map, p))
            if (known[p.index].place == place && known[p.index].set == set)
                break;
        if (p.index != MAP_NONE) {
            w = varint_write(w, known[p.index].number + 1ull);
            continue;
        }
        if (count->lane != lane)
            *count = (struct place_count){lane, 0};
        known[n] = (struct known_set){place, set, count->n++};
        r = map_insert(&c->set_map, h, n++);
        w = varint_write(w, 0);
        put_zigzag(&fresh, (int64_t) set - last);
        last = set;
    }
    end_varints(c, w);
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
    if (array_reserve(c->links, c->cap_links, (size_t) c->n_links + 1, UINT32_MAX) < 0 ||
        array_reserve(c->link_traces, c->cap_link_traces, (size_t) c->n_links + 1, UINT32_MAX) < 0 ||
        map_insert(&c->link_map, h, c->n_links) < 0)
        return -ENOMEM;
    c->links[c->n_links] = *l;
    c->link_traces[c->n_links] = hooks->trace(hooks->ctx, l->trace_id);
    if (c->link_traces[c->n_links] == UINT32_MAX)
        return -ENOMEM;
    *ret = c->n_links++;
    return 0;
}

/* 0 none, 1 the next new one, 2 the newest known one, 3 the one before it, and so on. */
static int put_link_refs(struct chunk_encoder *c, const struct chunk_hooks *hooks)
{
    unsigned char *w = begin_varints(c, c->n_rich);
    int r = w ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < c->n_rich; i++) {
        uint32_t k, known = c->n_links;

        if (!c->any_link || !c->rich[i].extra->has_link) {
            *w++ = 0;
            continue;
        }
        r = find_link(c, hooks, &c->rich[i].extra->link, &k);
        if (r == 0)
            w = varint_write(w, known - k + 1ull);
    }
    end_varints(c, w);
    end_column(c);
    return r;
}

static int put_links(struct chunk_encoder *c, struct chunk_out *out)
{
    struct buf *b = &c->raw[SEC_LINKS];
    uint32_t last = 0, n = 0;

    if (!c->n_links)
        return 0;
    if (array_reserve(out->traces, out->cap_traces, c->n_links, UINT32_MAX) < 0)
        return -ENOMEM;
    buf_reset(&c->column);
    for (uint32_t i = 0; i < c->n_links; i++) {
        put_zigzag(&c->column, (int64_t) c->link_traces[i] - last);
        last = out->traces[n++] = c->link_traces[i];
    }
    out->n_traces = n;
    put_varint(b, c->n_links);
    column_put(c->zstd, b, &c->column, 1);
    buf_reset(&c->column);
    for (uint32_t i = 0; i < c->n_links; i++)
        buf_put(&c->column, c->links[i].span_id, 8);
    column_put(c->zstd, b, &c->column, 1);
    return buf_error(b);
}

/* Sorts rows without a timestamp first, by profile and node, then the others by lane and time. The input is ordered by
 * entry, node and profile. */
static int sort_rich(struct chunk_encoder *c)
{
    struct radix *keys = arena_alloc(&c->arena, 2 * (c->n_rich + 1) * sizeof *keys), *tmp = keys + c->n_rich;
    struct rich *sorted = arena_alloc(&c->arena, (c->n_rich + 1) * sizeof *sorted);

    if (!keys || !sorted)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->n_rich; i++)
        keys[i] = (struct radix){c->rich[i].when ? c->rich[i].when : c->rich[i].prof, i};
    radix_sort(keys, tmp, c->n_rich);
    for (uint32_t i = 0; i < c->n_rich; i++) {
        const struct rich *x = &c->rich[keys[i].index];

        keys[i].key = x->when ? x->lane + 1ull : 0;
    }
    radix_sort(keys, tmp, c->n_rich);
    for (uint32_t i = 0; i < c->n_rich; i++)
        sorted[i] = c->rich[keys[i].index];
    memcpy(c->rich, sorted, c->n_rich * sizeof *sorted);
    return 0;
}

int chunk_put_extra(struct chunk_encoder *c, const struct chunk_hooks *hooks, struct stored_profile *const *profs,
                    const uint32_t *first, uint32_t n_entries, struct chunk_out *out)
{
    struct buf *b = &c->raw[SEC_EXTRA];
    uint32_t untimed = 0;
    unsigned char *w;
    int r;

    if (!c->n_rich)
        return 0;
    for (uint32_t i = 0; i < c->n_rich; i++) {
        c->rich[i].lane = c->rich[i].when ? MIN(hooks->lane(hooks->ctx, c->rich[i].set), LANES_MAX - 1u) : 0;
        c->rich[i].prof += first[c->rich[i].entry];
        untimed += !c->rich[i].when;
    }
    r = sort_rich(c);
    buf_reset(&c->column);
    put_varint(b, c->n_rich);
    put_varint(b, untimed);
    if (r == 0 && untimed)
        put_untimed(c, untimed);
    if (r == 0 && untimed < c->n_rich)
        r = put_timed(c, profs, first, c->rich + untimed, c->n_rich - untimed, n_entries);
    w = begin_varints(c, c->n_rich);
    for (uint32_t i = 0; w && i < c->n_rich; i++)
        w = varint_write(w, zigzag(c->rich[i].value));
    end_varints(c, w);
    end_column(c);
    if (r == 0)
        r = put_sets(c, n_entries);
    if (r == 0)
        r = put_link_refs(c, hooks);
    return r < 0 ? r : put_links(c, out);
}
