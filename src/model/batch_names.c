/* SPDX-License-Identifier: Apache-2.0 */
/* Adds names and lines to a copy of a batch (batch_names.h): tables with more entries, the rest shared. */
#include "model/batch_names.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "model/symbolizer.h"

/* The batch being built: copies of the tables with room for more entries. */
struct work_tables {
    struct batch *x;
    uint32_t cap_lines, cap_functions, cap_strings;
    struct map functions;
};

static void *grow(struct arena *a, void *old, uint32_t n, uint32_t *cap, uint32_t more, size_t size)
{
    uint32_t want = n + more;
    void *p = old;

    if (want <= *cap)
        return old;
    *cap = MAX(want, n + n / 2 + 64);
    p = arena_alloc(a, (size_t) *cap * size);
    if (p && n)
        memcpy(p, old, (size_t) n * size);
    return p;
}

static int add_string(struct work_tables *t, struct str s, uint32_t *ret)
{
    struct dict *d = &t->x->dict;
    struct str *v;

    if (!s.n) {
        *ret = 0;
        return 0;
    }
    v = grow(&t->x->arena, d->strings, d->n_strings, &t->cap_strings, 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    d->strings = v;
    v[d->n_strings] = arena_str(&t->x->arena, s);
    if (!v[d->n_strings].p)
        return -ENOMEM;
    *ret = d->n_strings++;
    return 0;
}

/* Adds one entry per function and file of this batch, found by the hash of its names. */
static int add_function(struct work_tables *t, const struct symbol_frame *f, uint32_t *ret)
{
    struct dict *d = &t->x->dict;
    uint64_t h =
        hash64_str(f->function) ^ hash_mix(hash64_str(f->file) ^ (uint64_t) f->start_line, 0x9e3779b97f4a7c15ull);
    struct function *v, fn = {.start_line = f->start_line};
    int r;

    for (struct map_pos p = map_find(&t->functions, h); p.index != MAP_NONE; p = map_next(&t->functions, p)) {
        const struct function *o = &d->functions[p.index];

        if (str_eq(d->strings[o->name], f->function) && str_eq(d->strings[o->filename], f->file) &&
            o->start_line == f->start_line) {
            *ret = p.index;
            return 0;
        }
    }
    r = add_string(t, f->function, &fn.name);
    if (r == 0)
        r = add_string(t, f->system_name, &fn.system_name);
    if (r == 0)
        r = add_string(t, f->file, &fn.filename);
    if (r < 0)
        return r;
    v = grow(&t->x->arena, d->functions, d->n_functions, &t->cap_functions, 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    d->functions = v;
    v[d->n_functions] = fn;
    r = map_insert(&t->functions, h, d->n_functions);
    *ret = d->n_functions++;
    return r;
}

static int set_frames(struct work_tables *t, struct location *l, const struct symbol_frame *frames, uint32_t n)
{
    struct dict *d = &t->x->dict;
    struct line *v = grow(&t->x->arena, d->lines, d->n_lines, &t->cap_lines, n, sizeof *v);

    if (!v)
        return -ENOMEM;
    d->lines = v;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t fn = 0;
        int r = add_function(t, &frames[i], &fn);

        if (r < 0)
            return r;
        v[d->n_lines + i] = (struct line){fn, frames[i].line, frames[i].column};
    }
    l->lines = (struct run){d->n_lines, n};
    d->n_lines += n;
    return 0;
}

/* Looks up the addresses of one mapping; `which` are locations. */
static int resolve_mapping(struct batch_resolver *resolver, struct work_tables *t, uint32_t mapping,
                           const uint32_t *which, uint64_t *addresses, uint32_t n)
{
    struct dict *d = &t->x->dict;
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    int r;

    for (uint32_t i = 0; i < n; i++)
        addresses[i] = d->locations[which[i]].address;
    r = resolver->resolve(resolver, t->x, mapping, addresses, n, &a);
    for (uint32_t i = 0; r == 0 && a && i < n; i++)
        if (a->first[i + 1] > a->first[i])
            r = set_frames(t, &d->locations[which[i]], &a->frames[a->first[i]], a->first[i + 1] - a->first[i]);
    return r;
}

static bool wanted(const struct batch *b, uint32_t i)
{
    const struct location *l = &b->dict.locations[i];

    return l->mapping && l->address && !l->lines.n;
}

/* Resolves all locations that need it, sorted by mapping with a counting sort. */
static int resolve_all(struct batch_resolver *resolver, struct work_tables *t, struct arena *scratch)
{
    struct dict *d = &t->x->dict;
    uint32_t *count = arena_zalloc_array(scratch, d->n_mappings + 1, sizeof *count);
    uint32_t *which = arena_zalloc_array(scratch, d->n_locations, sizeof *which);
    uint64_t *addresses = arena_zalloc_array(scratch, d->n_locations, sizeof *addresses);
    struct location *copy = arena_alloc(&t->x->arena, d->n_locations * sizeof *copy);
    int r = 0;

    if (!count || !which || !addresses || !copy)
        return -ENOMEM;
    memcpy(copy, d->locations, d->n_locations * sizeof *copy);
    d->locations = copy;
    for (uint32_t i = 0; i < d->n_locations; i++)
        if (wanted(t->x, i))
            count[d->locations[i].mapping + 1]++;
    for (uint32_t i = 0; i < d->n_mappings; i++)
        count[i + 1] += count[i];
    for (uint32_t i = d->n_locations; i-- > 0;) /* fills each range from its end: count[m + 1] becomes its start */
        if (wanted(t->x, i))
            which[--count[d->locations[i].mapping + 1]] = i;
    for (uint32_t m = 1; r == 0 && m < d->n_mappings; m++) {
        uint32_t from = count[m + 1], n = 0;

        while (from + n < d->n_locations && wanted(t->x, which[from + n]) && d->locations[which[from + n]].mapping == m)
            n++;
        if (n)
            r = resolve_mapping(resolver, t, m, which + from, addresses, n);
    }
    return r;
}

int batch_add_names(struct batch *b, struct batch_resolver *resolver, struct batch **ret)
{
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    struct work_tables t = {0};
    struct arena scratch;
    bool any = false;
    int r;

    for (uint32_t i = 1; i < b->dict.n_locations && !any; i++)
        any = wanted(b, i);
    if (!any) {
        *ret = batch_ref(b);
        return 0;
    }
    r = batch_share(b, &x);
    if (r < 0)
        return r;
    t.x = x;
    arena_init(&scratch, 0);
    r = resolve_all(resolver, &t, &scratch);
    arena_done(&scratch);
    map_done(&t.functions);
    if (r == 0)
        *ret = TAKE(x);
    return r;
}
