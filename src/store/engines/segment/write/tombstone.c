/* SPDX-License-Identifier: Apache-2.0 */
/* Creates tombstones and tests which series and segments they hide; see tombstone.h. */
#include "store/engines/segment/write/tombstone.h"

#include <errno.h>

#include "base/mem.h"

int tombstone_new(const struct catalog_deletion *d, struct tombstone **ret, struct err *e)
{
    _cleanup_(tombstone_unrefp) struct tombstone *t = mem_zalloc(sizeof *t);
    int r;

    if (!t)
        return err_set(e, -ENOMEM, "out of memory");
    t->refs = 1;
    t->id = d->id;
    t->tenant = d->tenant;
    t->log = d->log;
    t->from = d->from;
    t->to = d->to;
    arena_init(&t->arena, 0);
    r = selector_parse(d->selector, &t->arena, &t->selector, e);
    if (r < 0)
        return r;
    if (t->selector.type.n)
        type_by_name(t->selector.type, &t->type);
    *ret = TAKE(t);
    return 0;
}

struct tombstone *tombstone_ref(struct tombstone *t)
{
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void tombstone_unref(struct tombstone *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    selector_done(&t->selector);
    arena_done(&t->arena);
    mem_free(t);
}

bool tombstones_hide(struct tombstone *const *v, uint32_t n, uint32_t tenant, uint64_t log, const struct sym_series *s,
                     int64_t time_ns)
{
    for (uint32_t i = 0; i < n; i++)
        if (tombstone_concerns(v[i], tenant, log, time_ns, time_ns) && tombstone_matches(v[i], s))
            return true;
    return false;
}

int tombstone_hits(const struct tombstone *t, struct segment *s, struct symbols *symbols, struct err *e)
{
    _cleanup_(segment_releasep) struct segment *used = NULL;
    const struct segment_footer *f;
    int r;

    if (!tombstone_concerns(t, s->meta.tenant, s->meta.log, s->meta.t0, s->meta.t1))
        return 0;
    used = segment_use(s);
    r = segment_footer(s, &f, e);
    for (uint32_t i = 0; r == 0 && i < f->n_series; i++)
        if (f->series[i].series < pinned_count(&symbols->series) && f->series[i].first < t->to &&
            f->series[i].last >= t->from && tombstone_matches(t, sym_series(symbols, f->series[i].series)))
            return 1;
    return r;
}
