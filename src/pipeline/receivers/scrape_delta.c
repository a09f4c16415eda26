/* SPDX-License-Identifier: Apache-2.0 */
/* Subtracts the previous scrape of a cumulative profile from the current one. See scrape_delta.h. */
#include "pipeline/receivers/scrape_delta.h"

#include <errno.h>

#include "base/map.h"
#include "base/mem.h"
#include "model/identity.h"

enum { ENTRIES_MAX = 1 << 20 };

struct delta_entry {
    struct id128 id;
    uint32_t values; /* offset into the pool, of n_types values */
};

struct delta_table {
    struct map map;
    struct delta_entry *entries;
    size_t n, cap;
    int64_t *pool;
    size_t n_pool, cap_pool;
};

struct delta {
    struct delta_table before;
    uint32_t n_types; /* 0: no scrape yet */
};

static void table_done(struct delta_table *t)
{
    map_done(&t->map);
    mem_free(t->entries);
    mem_free(t->pool);
    *t = (struct delta_table){0};
}

static const struct delta_entry *table_find(const struct delta_table *t, struct id128 id)
{
    for (struct map_pos p = map_find(&t->map, hash64_id(id)); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (id128_eq(t->entries[p.index].id, id))
            return &t->entries[p.index];
    return NULL;
}

/* Adds values to the entry of id, which is created if it is new. */
static int table_add(struct delta_table *t, struct id128 id, const int64_t *values, uint32_t n)
{
    const struct delta_entry *x = table_find(t, id);
    int r;

    if (x) {
        for (uint32_t i = 0; i < n; i++)
            t->pool[x->values + i] += values[i];
        return 0;
    }
    r = array_reserve(t->entries, t->cap, t->n + 1, ENTRIES_MAX);
    if (r == 0)
        r = array_reserve(t->pool, t->cap_pool, t->n_pool + n, (size_t) ENTRIES_MAX * 64);
    if (r < 0)
        return r;
    memcpy(t->pool + t->n_pool, values, n * sizeof *values);
    t->entries[t->n] = (struct delta_entry){id, (uint32_t) t->n_pool};
    t->n_pool += n;
    return map_insert(&t->map, hash64_id(id), (uint32_t) t->n++);
}

int delta_new(struct delta **ret)
{
    *ret = mem_zalloc(sizeof **ret);
    return *ret ? 0 : -ENOMEM;
}

void delta_free(struct delta *d)
{
    if (!d)
        return;
    table_done(&d->before);
    mem_free(d);
}

static bool is_cumulative(struct str type)
{
    return str_starts(type, STR("alloc_")) || str_is(type, "contentions") || str_is(type, "delay");
}

static struct id128 sample_id(const struct batch *b, const struct sample *s, const struct id128 *stacks)
{
    struct hash128_state h;

    hash128_init(&h, 0x64656c7461ull);
    hash128_u64(&h, stacks[s->stack].hi);
    hash128_u64(&h, stacks[s->stack].lo);
    for (uint32_t i = 0; i < s->attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[s->attrs.off + i]];
        struct str key = batch_string(b, a->key), text = value_str(&a->value);

        hash128_bytes(&h, key.p, key.n);
        if (a->value.kind == VALUE_INT)
            hash128_u64(&h, (uint64_t) a->value.integer);
        else
            hash128_bytes(&h, text.p, text.n);
    }
    return hash128_final(&h);
}

static int remember(const struct batch *b, const struct profile *p, const struct id128 *ids, struct delta_table *now)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];

        r = table_add(now, ids[i], b->values + s->values.off, s->values.n);
    }
    return r;
}

/* True if some stack has a lower count than before: the program was restarted. */
static bool was_reset(const struct delta_table *before, const struct delta_table *now, uint32_t n_types,
                      uint64_t cumulative)
{
    for (size_t i = 0; i < before->n; i++) {
        const struct delta_entry *x = table_find(now, before->entries[i].id);

        for (uint32_t k = 0; x && k < n_types; k++)
            if (cumulative >> k & 1 && now->pool[x->values + k] < before->pool[before->entries[i].values + k])
                return true;
    }
    return false;
}

/* Several samples of one profile may share an id (the decoder does not merge them): the first gets the whole
 * difference. The first profile of a program has none. */
static void subtract(const struct delta *d, struct batch *b, struct profile *p, const struct id128 *ids,
                     struct delta_table *now, uint64_t cumulative)
{
    const struct delta_table *before = &d->before;
    bool first = d->n_types != p->n_types;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->samples.n; i++) {
        struct sample s = b->samples[p->samples.off + i];
        const struct delta_entry *old = table_find(before, ids[i]), *sum = table_find(now, ids[i]);
        int64_t *v = b->values + s.values.off, any = 0;

        for (uint32_t k = 0; k < s.values.n; k++) {
            if (cumulative >> k & 1) {
                v[k] = first ? 0 : now->pool[sum->values + k] - (old ? before->pool[old->values + k] : 0);
                now->pool[sum->values + k] = old ? before->pool[old->values + k] : 0; /* leaves 0 for the next one */
            }
            any |= v[k];
        }
        if (any)
            b->samples[p->samples.off + kept++] = s;
    }
    p->samples.n = kept;
}

int delta_apply(struct delta *d, struct batch *b)
{
    struct profile *p = &b->profiles[0];
    struct delta_table now = {0}, spent = {0};
    struct arena scratch;
    struct id128 *stacks, *ids;
    uint64_t cumulative = 0;
    bool first;
    int r = 0;

    if (!b->n_profiles)
        return 0;
    for (uint32_t k = 0; k < p->n_types; k++)
        if (is_cumulative(batch_string(b, p->types[k].type)))
            cumulative |= 1ull << k;
    if (!cumulative)
        return 1;
    arena_init(&scratch, 0);
    stacks = identity_stacks(b, &scratch);
    ids = arena_alloc(&scratch, (p->samples.n + 1) * sizeof *ids);
    if (!stacks || !ids)
        r = -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++)
        ids[i] = sample_id(b, &b->samples[p->samples.off + i], stacks);
    if (r == 0)
        r = remember(b, p, ids, &now);
    if (r == 0)
        r = remember(b, p, ids, &spent); /* a second copy, which subtract() changes */
    if (r == 0) {
        first = d->n_types != p->n_types;
        if (!first && was_reset(&d->before, &now, p->n_types, cumulative))
            table_done(&d->before);
        subtract(d, b, p, ids, &spent, cumulative);
        table_done(&d->before);
        d->before = now;
        d->n_types = p->n_types;
        now = (struct delta_table){0};
        r = !first;
    }
    table_done(&now);
    table_done(&spent);
    arena_done(&scratch);
    return r;
}
