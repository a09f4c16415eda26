/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_heatmap() of query.h: counts the profiles in each time step by value.
 *
 * Values come from senders and may be as far apart as two int64_t can be. Rows and slots are therefore computed as
 * doubles and clamped before they become an index.
 */
#include <errno.h>

#include "base/clock.h"
#include "query/query.h"

enum { PROFILES_MAX = 200000, SLOTS_MAX = 11000, SLOTS_DEFAULT = 60 };

static uint32_t clamped(double v, uint32_t n)
{
    if (!(v > 0))
        return 0;
    return v < n ? (uint32_t) v : n - 1;
}

static int fill(struct query_heatmap *h, const struct query_profiles *l)
{
    double low = 0, high = 0;

    h->counts = arena_zalloc_array(&h->arena, h->n_slots, QUERY_HEAT_ROWS * sizeof *h->counts);
    if (!h->counts)
        return -ENOMEM;
    for (uint32_t i = 0; i < l->n; i++) {
        double v = (double) l->v[i].value;

        low = i ? MIN(low, v) : v;
        high = i ? MAX(high, v) : v;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        double slot = ((double) l->v[i].time_ns - (double) h->from) / (double) h->step;
        double share = high > low ? ((double) l->v[i].value - low) / (high - low) : 0;

        if (l->v[i].time_ns >= h->from && slot < h->n_slots)
            h->counts[clamped(slot, h->n_slots)][clamped(share * QUERY_HEAT_ROWS, QUERY_HEAT_ROWS)]++;
    }
    h->low = low;
    h->high = high;
    h->n_profiles = l->n;
    return 0;
}

int query_heatmap(struct store *s, struct query *q, int64_t step, struct query_heatmap *ret, struct err *e)
{
    const struct store_column *c = &q->q.columns[q->is_diff];
    int64_t range = c->to - c->from; /* fits: a compiled query's times lie within CLOCK_MIN and CLOCK_MAX */
    struct query_profiles list;
    int r = query_profiles(s, q, false, PROFILES_MAX, &list, e);

    if (r < 0)
        return r;
    *ret = (struct query_heatmap){.from = c->from, .step = step > 0 ? step : MAX(range / SLOTS_DEFAULT, NS_PER_S)};
    ret->n_slots = (uint32_t) MIN((range - 1) / ret->step + 1, SLOTS_MAX);
    arena_init(&ret->arena, 0);
    r = fill(ret, &list);
    query_profiles_done(&list);
    if (r < 0)
        query_heatmap_done(ret);
    return r;
}

void query_heatmap_done(struct query_heatmap *h)
{
    arena_done(&h->arena);
    *h = (struct query_heatmap){0};
}
