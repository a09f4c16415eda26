/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the columns of a chunk's extra section into rows; see chunk.h and chunk_extra.c. Every number is checked. */
#include <errno.h>

#include "base/map.h"
#include "store/engines/segment/format/chunk_decoder.h"
#include "store/engines/segment/format/column.h"

struct reading {
    struct cursor r; /* the section */
    struct arena *a;
    const struct chunk_profiles *p;
    const uint32_t *n_nodes;
    struct rich_row *v;
    uint32_t n, untimed;
};

static uint32_t entry_of(const struct chunk_profiles *p, uint32_t prof)
{
    uint32_t lo = 0, hi = p->n_entries;

    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;

        if (p->first[mid] <= prof)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static int read_untimed(struct reading *x)
{
    struct cursor profs = column_get(&x->r, x->a), keys = column_get(&x->r, x->a);
    uint64_t prof = 0, key = 0;

    for (uint32_t i = 0; i < x->untimed; i++) {
        uint64_t step = get_varint(&profs);
        struct rich_row *v = &x->v[i];

        if (step > x->p->n_profs || (prof += step) >= x->p->n_profs)
            return -EBADMSG;
        v->prof = (uint32_t) prof;
        v->entry = i && !step ? x->v[i - 1].entry : entry_of(x->p, v->prof);
        key = (i && !step ? key : 0) + get_below(&keys, UINT32_MAX);
        if (key >= x->n_nodes[v->entry])
            return -EBADMSG;
        v->key = (uint32_t) key;
    }
    return profs.bad || keys.bad ? -EBADMSG : 0;
}

static int read_entries(struct reading *x)
{
    struct cursor perm = column_get(&x->r, x->a), ranks = column_get(&x->r, x->a), keys = column_get(&x->r, x->a);
    uint32_t n = x->p->n_entries, *of_rank = arena_alloc(x->a, (n + 1) * sizeof *of_rank);

    if (!of_rank)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        of_rank[i] = get_below(&perm, n);
    for (uint32_t i = x->untimed; i < x->n; i++) {
        uint32_t rank = get_below(&ranks, n), e, key = get_below(&keys, UINT32_MAX);

        if (ranks.bad)
            return -EBADMSG;
        e = of_rank[rank];
        if (key >= x->n_nodes[e])
            return -EBADMSG;
        x->v[i].entry = e;
        x->v[i].key = key;
    }
    return perm.bad || ranks.bad || keys.bad ? -EBADMSG : 0;
}

/* Reads the number of rows of each lane and its start. Leaves the first timestamps in the rows. */
static int read_lanes(struct reading *x, uint64_t lanes)
{
    uint64_t last = 0;
    uint32_t at = x->untimed;

    for (uint64_t k = 0; k < lanes; k++) {
        uint32_t n = get_below(&x->r, (uint64_t) (x->n - at) + 1);

        last += (uint64_t) get_zigzag(&x->r);
        if (x->r.bad || !n)
            return -EBADMSG;
        x->v[at].timestamp = last;
        for (uint32_t i = 0; i < n; i++)
            x->v[at + i].lane = (uint32_t) k + 1;
        at += n;
    }
    return at == x->n ? 0 : -EBADMSG;
}

static int read_timestamps(struct reading *x)
{
    uint64_t unit = get_varint(&x->r), period = get_varint(&x->r), lanes = get_varint(&x->r);
    struct cursor ticks, planes[8];
    uint32_t n_planes;
    int r = lanes > x->n ? -EBADMSG : read_lanes(x, lanes);

    if (r < 0)
        return r;
    ticks = column_get(&x->r, x->a);
    n_planes = get_below(&x->r, 9);
    for (uint32_t k = 0; k < n_planes; k++) {
        planes[k] = column_get(&x->r, x->a);
        if ((uint64_t) (planes[k].end - planes[k].p) != (uint64_t) x->n - x->untimed - lanes)
            return -EBADMSG;
    }
    for (uint32_t i = x->untimed + 1; i < x->n; i++) {
        uint64_t rest = 0;

        if (x->v[i].lane != x->v[i - 1].lane)
            continue;
        for (uint32_t k = 0; k < n_planes; k++)
            rest |= (uint64_t) *planes[k].p++ << (8 * k);
        x->v[i].timestamp = x->v[i - 1].timestamp + get_varint(&ticks) * period + (uint64_t) unzigzag(rest);
    }
    for (uint32_t i = x->untimed; i < x->n; i++)
        x->v[i].timestamp *= unit;
    return ticks.bad || x->r.bad ? -EBADMSG : 0;
}

/* Finds the profile of each row: the last of the entry that begins at or before the timestamp, plus the stored
 * distance. */
static int place_timed(struct reading *x, struct cursor *profs)
{
    uint64_t *times = arena_alloc(x->a, (x->p->n_profs + 1) * sizeof *times);

    if (!times)
        return -ENOMEM;
    for (uint32_t i = 0; i < x->p->n_profs; i++)
        times[i] = (uint64_t) x->p->profs[i].time_ns;
    for (uint32_t i = x->untimed; i < x->n; i++) {
        struct rich_row *v = &x->v[i];
        uint32_t lo = x->p->first[v->entry], hi = x->p->first[v->entry + 1];
        int64_t prof;

        while (hi - lo > 1) {
            uint32_t mid = (lo + hi) / 2;

            if (times[mid] <= v->timestamp)
                lo = mid;
            else
                hi = mid;
        }
        if (__builtin_add_overflow((int64_t) lo, get_zigzag(profs), &prof) || prof < x->p->first[v->entry] ||
            prof >= x->p->first[v->entry + 1])
            return -EBADMSG;
        v->prof = (uint32_t) prof;
    }
    return profs->bad ? -EBADMSG : 0;
}

/* The sets seen at a place, one list per place. */
struct seen {
    uint64_t place;
    uint32_t *sets, n, cap;
};

static int remember(struct seen *s, struct arena *a, uint32_t set)
{
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 4, *sets = arena_alloc(a, cap * sizeof *sets);

        if (!sets)
            return -ENOMEM;
        if (s->n)
            memcpy(sets, s->sets, s->n * sizeof *sets);
        s->sets = sets;
        s->cap = cap;
    }
    s->sets[s->n++] = set;
    return 0;
}

/* Finds the list of a row's place. Each place begins with a new set, so there are at most as many places as new
 * sets. */
static int find_place(struct map *map, struct seen *seen, uint32_t *n, const struct rich_row *v, bool add)
{
    uint64_t place = (uint64_t) v->lane << 32 | v->entry, h = hash64_u64(place);
    struct map_pos p;

    for (p = map_find(map, h); p.index != MAP_NONE; p = map_next(map, p))
        if (seen[p.index].place == place)
            return (int) p.index;
    if (!add)
        return -EBADMSG;
    if (map_insert(map, h, *n) < 0)
        return -ENOMEM;
    seen[*n] = (struct seen){.place = place};
    return (int) (*n)++;
}

static int read_sets(struct reading *x)
{
    struct cursor numbers = column_get(&x->r, x->a), fresh = column_get(&x->r, x->a);
    uint64_t n_fresh = 0, last = 0;
    struct map map = MAP_INIT;
    struct seen *seen;
    uint32_t n = 0;
    int r = 0;

    for (const unsigned char *p = fresh.p; p < fresh.end; p++)
        n_fresh += *p < 128;
    seen = arena_alloc(x->a, (n_fresh + 1) * sizeof *seen);
    if (!seen)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < x->n; i++) {
        uint32_t k = get_below(&numbers, UINT32_MAX);
        int at;

        at = !k && !n_fresh ? -EBADMSG : find_place(&map, seen, &n, &x->v[i], !k);
        n_fresh -= !k && n_fresh;
        if (at < 0) {
            r = at;
        } else if (!k) {
            last += (uint64_t) get_zigzag(&fresh);
            x->v[i].set = (uint32_t) last;
            r = remember(&seen[at], x->a, x->v[i].set);
        } else if (k > seen[at].n) {
            r = -EBADMSG;
        } else {
            x->v[i].set = seen[at].sets[k - 1];
        }
    }
    map_done(&map);
    return r < 0 ? r : numbers.bad || fresh.bad ? -EBADMSG : 0;
}

static int read_link_refs(struct reading *x, uint32_t n_links)
{
    struct cursor refs = column_get(&x->r, x->a);
    uint32_t known = 0;

    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t k = get_below(&refs, UINT32_MAX);

        if (k > known + 1u || (k == 1 && known == n_links))
            return -EBADMSG;
        x->v[i].link = k ? known + 2 - k : 0;
        known += k == 1;
    }
    return refs.bad ? -EBADMSG : 0;
}

static int read_links(const struct chunk *c, struct arena *a, struct rich_rows *ret)
{
    struct cursor r = cursor_of(c->raw[SEC_LINKS], c->size[SEC_LINKS]), traces, spans;
    uint64_t last = 0;

    if (!c->raw[SEC_LINKS])
        return 0;
    ret->n_links = get_below(&r, COLUMN_MAX);
    traces = column_get(&r, a);
    spans = column_get(&r, a);
    if (r.bad || (uint64_t) (spans.end - spans.p) != 8ull * ret->n_links)
        return -EBADMSG;
    ret->spans = spans.p;
    ret->traces = arena_alloc(a, (ret->n_links + 1) * sizeof *ret->traces);
    if (!ret->traces)
        return -ENOMEM;
    for (uint32_t i = 0; i < ret->n_links; i++) {
        last += (uint64_t) get_zigzag(&traces);
        if (last >= UINT32_MAX)
            return -EBADMSG;
        ret->traces[i] = (uint32_t) last;
    }
    return traces.bad ? -EBADMSG : 0;
}

/* There may be far more rows than bytes in the section, since columns with one repeated byte take almost no space. */
static uint64_t rows_max(const struct chunk *c)
{
    return 64 + 4096ull * c->size[SEC_EXTRA];
}

static int read_columns(struct reading *x, struct rich_rows *ret)
{
    struct cursor profs = {0}, values;
    int r = x->untimed ? read_untimed(x) : 0;

    if (r == 0 && x->untimed < x->n) {
        r = read_entries(x);
        if (r == 0)
            profs = column_get(&x->r, x->a);
        if (r == 0)
            r = read_timestamps(x);
        if (r == 0)
            r = place_timed(x, &profs);
    }
    if (r < 0)
        return r;
    values = column_get(&x->r, x->a);
    for (uint32_t i = 0; i < x->n; i++)
        x->v[i].value = get_zigzag(&values);
    r = values.bad ? -EBADMSG : read_sets(x);
    return r < 0 ? r : read_link_refs(x, ret->n_links);
}

int chunk_read_rich(const struct chunk *c, struct arena *a, const struct chunk_profiles *p, const uint32_t *n_nodes,
                    struct rich_rows *ret)
{
    struct reading x = {.r = cursor_of(c->raw[SEC_EXTRA], c->size[SEC_EXTRA]), .a = a, .p = p, .n_nodes = n_nodes};
    int r;

    *ret = (struct rich_rows){0};
    if (!c->raw[SEC_EXTRA])
        return 0;
    x.n = get_below(&x.r, rows_max(c));
    x.untimed = get_below(&x.r, (uint64_t) x.n + 1);
    if (x.r.bad || !p->n_profs)
        return -EBADMSG;
    x.v = arena_zalloc_array(a, x.n + 1, sizeof *x.v);
    if (!x.v)
        return -ENOMEM;
    r = read_links(c, a, ret);
    if (r == 0)
        r = read_columns(&x, ret);
    ret->v = x.v;
    ret->n = x.n;
    return r;
}
