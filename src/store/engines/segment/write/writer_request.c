/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns one request into rows and a record; see writer.h. Known dictionary entries are found by their content
 * (fingerprints.h); only new ones get numbers and definitions.
 */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "store/engines/segment/write/writer.h"

enum { AHEAD = 16, KEYS_AHEAD = 8 };

/* Profiles of a request often start at the same time, so the hash uses the other half of the key, without its constant
 * top bit. */
static uint64_t key_hash(struct id128 key)
{
    return key.lo << 1;
}

static bool key_known(struct engine *g, struct id128 key)
{
    struct writer *w = g->writer;

    for (struct map_pos p = map_find(&w->key_map, key_hash(key)); p.index != MAP_NONE; p = map_next(&w->key_map, p))
        if (p.index < w->n_keys && id128_eq(w->keys[p.index].key, key))
            return true;
    return dedup_has(&g->dedup, key);
}

static int add_key(struct writer *w, struct id128 key, int64_t now)
{
    int r = array_reserve(w->keys, w->cap_keys, (size_t) w->n_keys + 1, 1 << 24);

    if (r == 0)
        r = map_insert(&w->key_map, key_hash(key), w->n_keys);
    if (r == 0)
        w->keys[w->n_keys++] = (struct dedup_entry){key, now};
    return r;
}

static int begin_memo(struct writer *w, const struct batch *b)
{
    int r = sym_memo_init(&w->memo, b, &w->arena);

    if (r == 0)
        r = writer_find_ranges(w, b);
    w->nodes = arena_zalloc_array(&w->arena, b->dict.n_stacks + 1, sizeof *w->nodes);
    if (!w->nodes)
        return -ENOMEM;
    if (r == 0)
        fingerprints_samples(&w->memo.prints, b->samples, b->n_samples);
    return r;
}

static int find_node(struct writer *w, struct symbols *s, uint32_t service, uint32_t stack, uint32_t *ret)
{
    uint64_t v = w->nodes[stack];
    uint32_t node;

    if (likely(v >> 32 == service + 1ull)) {
        *ret = (uint32_t) v;
        return 0;
    }
    node = symbols_stack(s, &w->memo, service, stack);
    if (node == UINT32_MAX)
        return -ENOMEM;
    w->nodes[stack] = (service + 1ull) << 32 | node;
    *ret = node;
    return 0;
}

static uint64_t cut_timestamp(uint64_t t, enum store_timestamps how)
{
    return how == TIMESTAMPS_US ? t - t % 1000 : how == TIMESTAMPS_MS ? t - t % 1000000 : t;
}

/* An item to be stored, and its series. */
struct ready {
    const struct intake_profile *profile;
    const struct intake_item *item;
    uint32_t series, service;
};

struct ready_list {
    struct ready *v;
    uint32_t n;
};

/* The data of samples is scattered over tables that may be large, so it is prefetched some samples ahead, across
 * profiles. */
struct ahead {
    const struct ready *v; /* what is to be written */
    uint32_t n;
    uint32_t item, sample; /* the next to be prefetched */
};

struct filling {
    struct engine *g;
    const struct batch *b;
    const struct intake_item *it;
    struct mempart *part;
    struct symbols *symbols;
    uint32_t service;
    struct stored_profile *out;
    uint32_t rows, extras;
};

static void put_row(struct filling *f, uint32_t node, int64_t value, const struct extra *x)
{
    struct stored_profile *p = f->out;

    if (x) {
        p->extras[f->extras++] = *x;
        p->rows[f->rows++] = (struct row){node, f->extras, value};
    } else {
        p->rows[f->rows++] = (struct row){node, 0, value};
    }
    wrap_inc(&p->value, value);
}

static void look_ahead(struct job *j, struct writer *w, struct ahead *a)
{
    const struct batch *b = j->batch;
    const struct ready *v = a->v;
    const struct sample *s;
    uint32_t index;

    while (a->item < a->n && a->sample == b->profiles[v[a->item].item->profile].samples.n) {
        a->item++;
        a->sample = 0;
    }
    if (a->item == a->n)
        return;
    index = b->profiles[v[a->item].item->profile].samples.off + a->sample++;
    s = &b->samples[index];
    symbols_stack_ahead(j->symbols, j->memo, v[a->item].service, s->stack);
    if (s->attrs.n)
        idmap_ahead(&j->part->sets, fingerprints_sample_attrs(&w->memo.prints, index));
}

static int fill_sample(struct filling *f, uint32_t index)
{
    const struct sample *s = &f->b->samples[index];
    struct extra x = {.has_link = s->link != 0};
    struct writer *w = f->g->writer;
    uint32_t node;
    bool stamped = intake_is_stamped(f->it, s) && f->g->config.timestamps != TIMESTAMPS_OFF;
    int r = find_node(w, f->symbols, f->service, s->stack, &node);

    x.attrs = s->attrs.n ? writer_set(w, f->part, s->attrs, fingerprints_sample_attrs(&w->memo.prints, index)) : 0;
    if (r < 0 || x.attrs == UINT32_MAX)
        return -ENOMEM;
    if (x.has_link)
        x.link = f->b->dict.links[s->link];
    if (!stamped) {
        int64_t v = intake_value(f->b, f->it, index);

        if (v)
            put_row(f, node, v, x.has_link || x.attrs ? &x : NULL);
        return 0;
    }
    for (uint32_t i = 0; i < s->timestamps.n; i++) {
        int64_t v = s->values.n ? f->b->values[s->values.off + i] : 1;

        x.timestamp = cut_timestamp(f->b->timestamps[s->timestamps.off + i], f->g->config.timestamps);
        put_row(f, node, intake_scale(v, f->it->scale), &x);
    }
    return 0;
}

static void count_rows(const struct batch *b, const struct profile *p, uint32_t *rows, uint32_t *extras)
{
    *rows = *extras = 0;
    for (uint32_t i = 0; i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];
        uint32_t n = s->timestamps.n ? s->timestamps.n : 1;

        *rows += n;
        if (s->timestamps.n || s->attrs.n || s->link)
            *extras += n;
    }
}

static int add_item(struct engine *g, struct job *j, const struct intake *in, const struct ready *v,
                    struct ahead *ahead)
{
    const struct batch *b = j->batch;
    const struct intake_item *it = v->item;
    const struct profile *p = &b->profiles[it->profile];
    const struct sym_series *series = sym_series(j->symbols, v->series);
    struct filling f = {.g = g, .b = b, .it = it, .part = j->part, .symbols = j->symbols, .service = v->service};
    uint32_t rows, extras;
    int r = 0;

    count_rows(b, p, &rows, &extras);
    f.out = mempart_add(j->part, rows, extras);
    if (!f.out)
        return -ENOMEM;
    f.out->series = v->series;
    f.out->service = f.service;
    f.out->type = series->type_name;
    f.out->gauge = it->type.rule == TYPE_GAUGE;
    f.out->instance = in->resources[it->resource].instance;
    f.out->time_ns = v->profile->time_ns;
    f.out->duration_ns = p->duration_ns;
    f.out->group = p->n_types > 1 || p->group ? (uint32_t) (v->profile->key.lo ^ p->group) | 1 : 0;
    memcpy(f.out->id, p->id, 16);
    f.out->header = writer_header(g->writer, j->part, in, it);
    if (f.out->header == UINT32_MAX)
        return -ENOMEM;
    for (uint32_t k = 0; r == 0 && k < p->samples.n; k++) {
        r = fill_sample(&f, p->samples.off + k);
        look_ahead(j, g->writer, ahead);
    }
    f.out->n_rows = f.rows;
    f.out->n_extras = f.extras;
    j->rows += f.rows;
    return r;
}

/* Skips profiles that were stored before, and finds the series of the others. */
static int choose_profile(struct engine *g, struct job *j, const struct intake *in, const struct intake_profile *ip,
                          int64_t now, struct ready_list *to)
{
    int r;

    if (ip->has_key && key_known(g, ip->key)) {
        j->duplicates++;
        return 0;
    }
    r = intake_difference(j->batch, in, ip, &g->cumulative, &g->writer->arena);
    for (uint32_t i = 0; r >= 0 && i < ip->n_items; i++) {
        const struct intake_item *it = &in->items[ip->first_item + i];
        const struct intake_resource *res = &in->resources[it->resource];
        uint32_t series = symbols_series(j->symbols, &it->type, &res->labels, res->labels_id);

        if (series == UINT32_MAX)
            return -ENOMEM;
        to->v[to->n] = (struct ready){ip, it, series, sym_series(j->symbols, series)->service};
        __builtin_prefetch(&sym_service(j->symbols, to->v[to->n].service)->stacks);
        to->n++;
    }
    if (r >= 0 && ip->has_key)
        r = add_key(g->writer, ip->key, now);
    j->profiles++;
    return r;
}

static int add_profiles(struct engine *g, struct job *j, const struct intake *in, int64_t now)
{
    struct ready_list list = {arena_alloc(&g->writer->arena, (in->n_items + 1) * sizeof *list.v), 0};
    struct ahead ahead;
    int r = list.v ? 0 : -ENOMEM;

    for (uint32_t i = 0; r >= 0 && i < in->n_profiles; i++) {
        if (i + 2 * KEYS_AHEAD < in->n_profiles)
            dedup_ahead(&g->dedup, in->profiles[i + 2 * KEYS_AHEAD].key, false);
        if (i + KEYS_AHEAD < in->n_profiles)
            dedup_ahead(&g->dedup, in->profiles[i + KEYS_AHEAD].key, true);
        r = choose_profile(g, j, in, &in->profiles[i], now, &list);
    }
    ahead = (struct ahead){.v = list.v, .n = list.n};
    for (uint32_t i = 0; r >= 0 && i < AHEAD; i++)
        look_ahead(j, g->writer, &ahead);
    for (uint32_t i = 0; r >= 0 && i < list.n; i++)
        r = add_item(g, j, in, &list.v[i], &ahead);
    return r < 0 ? r : symbols_improve(j->symbols, j->memo);
}

static int find_symbols(struct engine *g, struct job *j, struct err *e) _locked_(g->write_lock)
{
    struct engine_tenant *t = engine_find_tenant(g, j->tenant);
    struct engine_epoch *k;
    int r;

    if (!t) {
        r = engine_add_tenant(g, engine_n_tenants(g) + 1, j->tenant, &t, e);
        if (r < 0)
            return r;
    }
    if (!t->epochs) {
        r = engine_add_epoch(g, t, 1, engine_now(g), &k);
        if (r < 0)
            return r;
    }
    j->symbols = atomic_load(&t->epochs)->symbols;
    return writer_begin_defs(g, j);
}

int writer_begin_defs(struct engine *g, struct job *j)
{
    enum { START_MAX = 128 };
    struct symbols *s = j->symbols;
    int r = memtable_part(g->active, s, &j->part);
    struct blobs *b;

    if (r < 0)
        return r;
    b = &j->part->blobs;
    b->recording = true;
    if (!buf_reserve(&s->defs, START_MAX) || !buf_reserve(&b->defs, START_MAX)) {
        s->defs.err = b->defs.err = 0;
        return -ENOMEM;
    }
    if (s->defs.n == s->defs_taken)
        symbols_put_start(s, &s->defs);
    if (b->defs.n == b->defs_taken)
        blobs_put_start(b, &b->defs);
    return 0;
}

static void put_defs(struct buf *group, const struct buf *defs, size_t from)
{
    put_varint(group, defs->n - from);
    buf_put(group, defs->p + from, defs->n - from);
}

int writer_put_record(struct engine *g, struct job *j)
{
    struct buf *b = &g->writer->group;
    struct writer *w = g->writer;
    struct symbols *s = j->symbols;
    struct blobs *blobs = &j->part->blobs;
    size_t at = b->n;
    int r;

    buf_pad(b, 0, LOG_RECORD);
    put_varint(b, s->tenant);
    put_varint(b, s->epoch);
    put_bytes(b, j->tenant, strlen(j->tenant));
    put_defs(b, &s->defs, s->defs_taken);
    put_defs(b, &blobs->defs, blobs->defs_taken);
    record_put_keys(b, w->keys + j->first_key, w->n_keys - j->first_key);
    put_varint(b, j->part->n_added - j->first_prof);
    for (uint32_t i = j->first_prof; i < j->part->n_added; i++)
        record_put_prof(b, pinned_at(&j->part->profs, i));
    r = buf_error(b);
    if (r == 0 && !buf_reserve(&j->part->defs, s->defs.n)) { /* the memtable keeps them for the symbol file */
        r = buf_error(&j->part->defs);
        j->part->defs.err = 0;
    }
    if (r < 0) { /* the records before it are complete */
        b->n = at;
        b->err = 0;
        return r;
    }
    log_frame(b, at, ++g->lsn);
    j->defs_at = s->defs_taken;
    j->defs_n = s->defs.n - s->defs_taken;
    s->defs_taken = s->defs.n;
    blobs->defs_taken = blobs->defs.n;
    return 0;
}

int writer_make_record(struct engine *g, struct job *j, struct err *e)
{
    struct writer *w = g->writer;
    int64_t now = engine_now(g);
    struct intake in;
    size_t before;
    int r = find_symbols(g, j, e);

    if (r == 0)
        r = begin_memo(w, j->batch);
    if (r < 0)
        return r;
    before = j->part->arena.used;
    j->symbols->frozen = !engine_takes_stacks(g, engine_find_tenant(g, j->tenant), j->batch->dict.n_stacks);
    j->memo = &w->memo;
    g->limits.believed = engine_believed(g);
    g->limits.now = now;
    r = intake_plan(&w->memo.prints, &j->ctx, &g->limits, &w->resources, &w->arena, &in);
    if (r < 0)
        return r;
    j->first_prof = j->part->n_added;
    j->first_key = w->n_keys;
    r = add_profiles(g, j, &in, MIN(now, g->limits.believed));
    if (r >= 0)
        r = writer_put_record(g, j);
    if (r < 0) { /* nothing of it was stored, so it is not a duplicate when sent again */
        j->part->n_added = j->first_prof;
        w->n_keys = j->first_key;
        cumulative_done(&g->cumulative); /* its values are not stored: every instance begins with a new base */
        g->active->bytes += j->part->arena.used - before; /* kept until the memtable is freed */
        return r == -ENOMEM && j->symbols->frozen
                   ? err_set(e, -ENOBUFS,
                             "tenant '%s' sends new stacks faster than its share of the memory for stacks allows "
                             "(limits.memory): requests with new ones must be retried",
                             j->tenant)
                   : r;
    }
    j->result.rejected = in.rejected;
    snprintf(j->result.message, sizeof j->result.message, "%s", in.message);
    g->active->bytes += MAX(j->part->arena.used - before, j->rows * sizeof(struct row)) + j->rows * 4 +
                        j->profiles * sizeof(struct stored_profile);
    return 0;
}
