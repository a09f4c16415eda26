/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the series and the single profiles of a range, and exports whole profiles as batches; see engine.h. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "model/semconv.h"
#include "store/engines/segment/read/scan.h"
#include "store/engines/segment/read/view.h"

/* --- series --- */

struct live {
    struct symbols *symbols;
    uint8_t *seen;
    uint32_t n;
};

static struct live *find_live(struct live *v, uint32_t *n, struct symbols *s)
{
    for (uint32_t i = 0; i < *n; i++)
        if (v[i].symbols == s)
            return &v[i];
    v[*n] = (struct live){s, NULL, pinned_count(&s->series)};
    v[*n].seen = mem_zalloc_array(v[*n].n + 1, 1);
    return v[*n].seen ? &v[(*n)++] : NULL;
}

/* Trims the first and last time of a series to what deletions have left of it; approximate, like these times. */
static void trim(const struct snapshot *snap, const struct segment_meta *m, const struct sym_series *s, int64_t *first,
                 int64_t *last)
{
    for (uint32_t i = 0; i < snap->n_tombstones; i++) {
        const struct tombstone *t = snap->tombstones[i];

        if (!tombstone_concerns(t, m->tenant, m->log, *first, *last) || !tombstone_matches(t, s))
            continue;
        if (tombstone_covers(t, *first))
            *first = t->to;
        if (tombstone_covers(t, *last))
            *last = t->from - 1;
    }
}

static int mark_segment(struct engine *g, const struct snapshot *snap, struct segment *s, struct live *l,
                        const struct store_range *range)
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(s);
    const struct segment_footer *f;
    struct err e = {0};
    int r = segment_footer(s, &f, &e);

    if (r < 0) {
        if (r == -ENOMEM)
            return r;
        engine_damage(g, err_message(&e, r));
        if (range->notes && !range->notes->damaged++)
            snprintf(range->notes->damage, sizeof range->notes->damage, "%s", err_message(&e, r));
        return 0;
    }
    for (uint32_t i = 0; i < f->n_series; i++) {
        int64_t first = f->series[i].first, last = f->series[i].last;

        if (f->series[i].series >= l->n || l->seen[f->series[i].series])
            continue;
        trim(snap, &s->meta, sym_series(l->symbols, f->series[i].series), &first, &last);
        if (first <= last && first < range->to && last >= range->from)
            l->seen[f->series[i].series] = 1;
    }
    return 0;
}

static void mark_part(const struct snapshot *snap, uint64_t log, struct mempart *p, struct live *l, int64_t from,
                      int64_t to)
{
    uint32_t n = pinned_count(&p->profs);

    for (uint32_t i = 0; i < n; i++) {
        const struct stored_profile *x = pinned_at(&p->profs, i);

        if (x->series < l->n && !l->seen[x->series] && x->time_ns >= from && x->time_ns < to &&
            !tombstones_hide(snap->tombstones, snap->n_tombstones, p->symbols->tenant, log,
                             sym_series(p->symbols, x->series), x->time_ns))
            l->seen[x->series] = 1;
    }
}

/* The series that were reported, over all epochs: a series that occurs in several epochs is reported once. */
struct reported_series {
    const struct sym_series **v;
    size_t cap;
    uint32_t n;
    struct map map;
};

/* Returns 1 when the series is new, 0 when it was reported before. */
static int report_once(struct reported_series *t, const struct sym_series *s)
{
    uint64_t h = s->labels_id.hi ^ hash64_str(s->type.name);

    for (struct map_pos p = map_find(&t->map, h); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (id128_eq(t->v[p.index]->labels_id, s->labels_id) && str_eq(t->v[p.index]->type.name, s->type.name))
            return 0;
    if (array_reserve(t->v, t->cap, (size_t) t->n + 1, UINT32_MAX) < 0 || map_insert(&t->map, h, t->n) < 0)
        return -ENOMEM;
    t->v[t->n++] = s;
    return 1;
}

/* Reports the series of the epochs v that were seen. */
static int tell_series(const struct live *v, uint32_t n, store_series_fn fn, void *ctx)
{
    struct reported_series reported = {0};
    int r = 0;

    for (uint32_t k = 0; r == 0 && k < n; k++)
        for (uint32_t i = 0; r == 0 && i < v[k].n; i++) {
            const struct sym_series *s = v[k].seen[i] ? sym_series(v[k].symbols, i) : NULL;
            int is_new = !s ? 0 : n == 1 ? 1 : report_once(&reported, s);

            r = is_new > 0 ? fn(ctx, &s->type, &s->labels) : is_new;
        }
    mem_free(reported.v);
    map_done(&reported.map);
    return r;
}

int engine_each_series(struct store *s, const struct store_range *range, store_series_fn fn, void *ctx)
{
    struct engine *g = to_engine(s);
    struct engine_tenant *t = engine_find_tenant(g, range->tenant);
    _cleanup_(snapshot_unrefp) struct snapshot *snap = t ? snapshot_get(g) : NULL;
    struct live *v;
    uint32_t n = 0, parts = 0;
    int r = 0;

    if (!t)
        return 0;
    for (uint32_t i = 0; i < snap->n_memtables; i++)
        for (struct mempart *p = atomic_load(&snap->memtables[i]->parts); p; p = p->next)
            parts++;
    v = mem_zalloc_array(snap->n_segments + parts + 1, sizeof *v);
    for (uint32_t i = 0; v && r == 0 && i < snap->n_segments; i++) {
        struct segment *x = snap->segments[i].segment;
        struct live *l;

        if (x->meta.tenant != t->number || x->meta.t0 >= range->to || x->meta.t1 < range->from)
            continue;
        l = find_live(v, &n, snap->segments[i].symbols);
        r = l ? mark_segment(g, snap, x, l, range) : -ENOMEM;
    }
    for (uint32_t i = 0; v && r == 0 && i < snap->n_memtables; i++)
        for (struct mempart *p = atomic_load(&snap->memtables[i]->parts); r == 0 && p; p = p->next) {
            struct live *l;

            if (p->symbols->tenant != t->number)
                continue;
            l = find_live(v, &n, p->symbols);
            r = l ? 0 : -ENOMEM;
            if (l)
                mark_part(snap, snap->memtables[i]->log, p, l, range->from, range->to);
        }
    if (v && r == 0)
        r = tell_series(v, n, fn, ctx);
    for (uint32_t k = 0; k < n; k++)
        mem_free(v[k].seen);
    mem_free(v);
    return v ? r : -ENOMEM;
}

/* --- profiles --- */

struct telling {
    struct scan scan;
    store_profile_fn fn;
    void *ctx;
};

static int64_t period_of(const struct scan_prof *p)
{
    struct blob_header h;

    return blobs_read_header(p->blobs, p->p->header, &h) && str_is(h.period_unit, "nanoseconds") ? h.period : 0;
}

static int tell_profile(void *ctx, const struct scan_prof *p)
{
    struct telling *t = ctx;
    struct store_profile out = {.time_ns = p->p->time_ns,
                                .duration_ns = p->p->duration_ns,
                                .period_ns = period_of(p),
                                .type = &p->series->type,
                                .labels = &p->series->labels};

    if (t->scan.only_counts) {
        out.value = p->p->value;
        out.n_samples = p->p->n_rows;
    } else {
        for (uint32_t i = 0; i < p->p->n_rows; i++)
            if (scan_row(&t->scan, p, &p->p->rows[i])) {
                wrap_inc(&out.value, p->p->rows[i].value);
                out.n_samples++;
            }
        if (!out.n_samples)
            return 0;
    }
    if (t->scan.q->times_only)
        return t->fn(t->ctx, &out);
    memcpy(out.id, p->p->id, 16);
    out.handle = match_profile_handle(p->series->labels_id, p->p->instance, p->series->type.name, p->p->time_ns,
                                      p->p->duration_ns, p->p->value);
    return t->fn(t->ctx, &out);
}

int engine_profiles(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e)
{
    struct telling t = {.fn = fn, .ctx = ctx};
    int r = scan_init(&t.scan, to_engine(s), q, false, e);

    t.scan.only_counts = !t.scan.match[0].n_detail && !q->columns[0].taken_to && !store_query_by_span(q);
    if (r == 0 && t.scan.tenant)
        r = scan_profs(&t.scan, !q->times_only || !t.scan.only_counts, tell_profile, &t);
    scan_done(&t.scan);
    return r;
}

/* --- export --- */

static const struct str build_id_keys[] = {
    {0}, STR(SEMCONV_BUILD_ID_GNU), STR(SEMCONV_BUILD_ID_GO), STR(SEMCONV_BUILD_ID_HTLHASH)};

enum { EXPORT_SAMPLES = 200000, SETS_KNOWN = 512, MAPPINGS_MAX = 512, ATTRS_MAX = 64 };

struct exporting {
    struct scan scan;
    struct builder *b;
    store_batch_fn fn;
    void *ctx;
    uint64_t blobs; /* serial of the previous profile's blobs; 0: none */
    uint32_t resource, scope;
    uint64_t samples;
    uint32_t *list;
    size_t cap_list;
    struct blob_mapping mappings[MAPPINGS_MAX]; /* of the current profile, as they were sent */
    uint32_t n_mappings;
    uint64_t mappings_of; /* the blobs they come from, and their number there */
    uint32_t mappings_no;
    struct known_location {
        const struct symbols *symbols;
        uint64_t generation;
        uint32_t index;
    } * known; /* emitted locations, by number */
    size_t cap_known;
    struct known_stack {
        const struct sym_service *service;
        uint64_t generation;
        uint32_t index;
    } * stacks; /* emitted stacks, by node */
    size_t cap_stacks;
    struct {
        uint64_t blobs, generation;
        uint32_t set;
        struct run run;
    } sets[SETS_KNOWN];  /* attribute sets that were emitted, by a part of their number */
    uint64_t generation; /* of what is known: another batch or other mappings invalidate it; from 1 */
};

static int finish_batch(struct exporting *x)
{
    _cleanup_(batch_unrefp) struct batch *out = NULL;
    int r = 0;

    if (!x->b)
        return 0;
    r = builder_finish(x->b, &out, x->scan.e);
    builder_free(x->b);
    x->b = NULL;
    x->blobs = x->mappings_of = 0;
    x->samples = 0;
    x->generation++;
    return r == 0 && out->n_profiles ? x->fn(x->ctx, out) : r;
}

/* Returns the mapping that a location was sent with: of its binary, and containing its address. NULL: nothing but its
 * binary was sent. */
static const struct blob_mapping *find_sent(const struct exporting *x, const struct scan_prof *p,
                                            const struct sym_mapping *m, uint64_t address)
{
    struct str id = sym_string(p->symbols, m->build_id), name = sym_string(p->symbols, m->filename);
    const struct blob_mapping *found = NULL;

    for (uint32_t i = 0; i < x->n_mappings; i++) {
        const struct blob_mapping *s = &x->mappings[i];
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        bool same = m->build_id == 0 && str_eq(s->filename, name);

        if (m->build_id)
            same = (blobs_set_find(p->blobs, s->attrs, build_id_keys[m->id_kind & 3], &text) ||
                    blobs_set_find(p->blobs, s->attrs, build_id_keys[1], &text)) &&
                   str_eq(buf_str(&text), id);
        if (!same)
            continue;
        if (address - s->offset < s->limit - s->start)
            return s;
        found = found ? found : s;
    }
    return found;
}

static uint32_t emit_sent(struct builder *b, const struct blobs *blobs, const struct blob_mapping *s)
{
    struct run attrs = blobs_emit_set(blobs, s->attrs, b);
    uint32_t list[ATTRS_MAX], n = MIN(attrs.n, (uint32_t) ATTRS_MAX);

    if (n)
        memcpy(list, builder_batch(b)->dict.indices + attrs.off, n * sizeof *list);
    return builder_mapping(
        b,
        &(struct mapping){
            .filename = builder_string(b, s->filename), .start = s->start, .limit = s->limit, .offset = s->offset},
        list, n);
}

/* Sets *address to the address that was sent with that mapping. */
static uint32_t emit_mapping(const struct exporting *x, const struct scan_prof *p, uint32_t mapping, uint64_t *address)
{
    const struct sym_mapping *m = pinned_at(&p->symbols->mappings, mapping);
    const struct blob_mapping *sent = mapping && x->n_mappings ? find_sent(x, p, m, *address) : NULL;
    uint32_t attr = 0;

    if (!mapping)
        return 0;
    if (sent) {
        if (*address && sent->start && *address - sent->offset < sent->limit - sent->start)
            *address = *address - sent->offset + sent->start;
        return emit_sent(x->b, p->blobs, sent);
    }
    if (m->build_id)
        attr =
            builder_attr_str(x->b, build_id_keys[m->id_kind ? m->id_kind & 3 : 1], sym_string(p->symbols, m->build_id));
    return builder_mapping(x->b,
                           &(struct mapping){.filename = builder_string(x->b, sym_string(p->symbols, m->filename))},
                           &attr, m->build_id ? 1 : 0);
}

static uint32_t emit_location(const struct exporting *x, const struct scan_prof *p, uint32_t location)
{
    const struct symbols *s = p->symbols;
    struct builder *b = x->b;
    const struct sym_location *l = sym_location(s, location);
    const struct sym_lines *from = atomic_load_explicit(&((struct sym_location *) l)->lines, memory_order_acquire);
    _uninit_ struct line lines[256];
    uint32_t n = from ? MIN(from->n, ARRAY_SIZE(lines)) : 0, attrs[ATTRS_MAX], n_attrs = 0, mapping;
    uint64_t address = l->address;

    for (uint32_t i = 0; i < n; i++) {
        const struct sym_function *f = pinned_at(&s->functions, from->v[i].function);
        struct function fn = {.name = builder_string(b, sym_string(s, f->name)),
                              .system_name = builder_string(b, sym_string(s, f->system_name)),
                              .filename = builder_string(b, sym_string(s, f->file)),
                              .start_line = f->start_line};

        lines[i] = (struct line){builder_function(b, &fn), from->v[i].line, from->v[i].column};
    }
    if (l->kind)
        attrs[n_attrs++] = builder_attr_str(b, STR(SEMCONV_FRAME_TYPE), str_from(frame_kind_name(l->kind)));
    if (l->attrs)
        n_attrs += blob_attrs_emit(sym_string(s, l->attrs), b, attrs + n_attrs, ATTRS_MAX - n_attrs);
    mapping = emit_mapping(x, p, l->mapping, &address);
    return builder_location(
        b,
        &(struct builder_location){
            .mapping = mapping, .address = address, .lines = lines, .n_lines = n, .attrs = attrs, .n_attrs = n_attrs});
}

static uint32_t find_location(struct exporting *x, const struct scan_prof *p, uint32_t location)
{
    struct known_location *k;
    size_t before = x->cap_known;

    if (array_reserve(x->known, x->cap_known, (size_t) location + 1, UINT32_MAX) < 0)
        return emit_location(x, p, location);
    if (x->cap_known > before)
        memset(x->known + before, 0, (x->cap_known - before) * sizeof *x->known);
    k = &x->known[location];
    if (k->symbols != p->symbols || k->generation != x->generation)
        *k = (struct known_location){p->symbols, x->generation, emit_location(x, p, location)};
    return k->index;
}

static int emit_stack(struct exporting *x, const struct scan_prof *p, uint32_t node, uint32_t *ret)
{
    const struct sym_service *service = sym_service(p->symbols, p->series->service);
    uint32_t n = 0, leaf = node;
    size_t before = x->cap_stacks;

    if (node >= pinned_count(&service->nodes))
        return -EBADMSG;
    if (leaf < x->cap_stacks && x->stacks[leaf].service == service && x->stacks[leaf].generation == x->generation) {
        *ret = x->stacks[leaf].index;
        return 0;
    }
    for (; node; node = sym_node(service, node)->parent) {
        if (array_push(x->list, n, x->cap_list, 1 << 24, find_location(x, p, sym_node(service, node)->location)) < 0)
            return -ENOMEM;
    }
    *ret = builder_stack(x->b, x->list, n);
    if (array_reserve(x->stacks, x->cap_stacks, (size_t) leaf + 1, UINT32_MAX) == 0) {
        if (x->cap_stacks > before)
            memset(x->stacks + before, 0, (x->cap_stacks - before) * sizeof *x->stacks);
        x->stacks[leaf] = (struct known_stack){service, x->generation, *ret};
    }
    return 0;
}

static struct run emit_set(struct exporting *x, const struct scan_prof *p, uint32_t set)
{
    size_t at = set % SETS_KNOWN;

    if (x->sets[at].set != set || x->sets[at].blobs != p->blobs->serial || x->sets[at].generation != x->generation) {
        x->sets[at].run = blobs_emit_set(p->blobs, set, x->b);
        x->sets[at].set = set;
        x->sets[at].blobs = p->blobs->serial;
        x->sets[at].generation = x->generation;
    }
    return x->sets[at].run;
}

static int emit_row(struct exporting *x, const struct scan_prof *p, const struct blob_header *h, const struct row *row)
{
    const struct extra *e = row->extra ? &p->p->extras[row->extra - 1] : NULL;
    uint32_t stack, link = e && e->has_link ? builder_link(x->b, &e->link) : 0;
    int64_t values[2] = {row->value / h->scale, 0};
    struct run attrs = e && e->attrs ? emit_set(x, p, e->attrs) : (struct run){0};
    int r = emit_stack(x, p, row->node, &stack);

    if (r < 0)
        return r;
    if (h->twin_scale) {
        values[1] = values[0];
        values[0] = row->value / h->twin_scale;
    }
    builder_sample(x->b, &(struct builder_sample){.stack = stack,
                                                  .link = link,
                                                  .attrs = attrs,
                                                  .values = values,
                                                  .n_values = h->twin_scale ? 2 : 1,
                                                  .timestamps = e && e->timestamp ? &e->timestamp : NULL,
                                                  .n_timestamps = e && e->timestamp ? 1 : 0});
    return 0;
}

static int begin_profile(struct exporting *x, const struct scan_prof *p, const struct blob_header *h)
{
    struct value_type types[2];
    struct str format, payload;
    struct profile *out;
    uint32_t n = 0;

    if (x->blobs != p->blobs->serial || x->resource != h->resource || x->scope != h->scope) {
        blobs_emit_resource(p->blobs, h->resource, x->b);
        blobs_emit_scope(p->blobs, h->scope, x->b);
    }
    x->blobs = p->blobs->serial;
    x->resource = h->resource;
    x->scope = h->scope;
    if (h->twin_scale)
        types[n++] = (struct value_type){builder_string(x->b, h->twin_type), builder_string(x->b, h->twin_unit)};
    types[n++] = (struct value_type){builder_string(x->b, h->type), builder_string(x->b, h->unit)};
    out = builder_profile(x->b, types, n);
    if (!out)
        return -ENOMEM;
    out->period_type = (struct value_type){builder_string(x->b, h->period_type), builder_string(x->b, h->period_unit)};
    out->period = h->period;
    out->time_ns = p->p->time_ns;
    out->duration_ns = p->p->duration_ns;
    memcpy(out->id, p->p->id, 16);
    out->group = p->p->group;
    out->dropped_attrs = h->dropped;
    if (h->payload && blobs_read_payload(p->blobs, h->payload, &format, &payload)) {
        out->payload_format = arena_str(&builder_batch(x->b)->arena, format);
        out->payload = arena_str(&builder_batch(x->b)->arena, payload);
    }
    if (x->mappings_of != p->blobs->serial || x->mappings_no != h->mappings) {
        x->mappings_of = p->blobs->serial;
        x->mappings_no = h->mappings;
        x->n_mappings = h->mappings ? blobs_read_mappings(p->blobs, h->mappings, x->mappings, MAPPINGS_MAX) : 0;
        x->generation++;
    }
    out->attrs = blobs_emit_set(p->blobs, h->attrs, x->b);
    return 0;
}

static int export_prof(void *ctx, const struct scan_prof *p)
{
    struct exporting *x = ctx;
    struct blob_header h;
    int r = 0;

    if (!blobs_read_header(p->blobs, p->p->header, &h))
        return scan_damage(&x->scan, -EBADMSG, "a profile's header is damaged");
    if (!x->b)
        r = builder_new(NULL, &x->b);
    if (r == 0)
        r = begin_profile(x, p, &h);
    for (uint32_t i = 0; r == 0 && i < p->p->n_rows; i++)
        if (!x->scan.needs_detail[0] || scan_row(&x->scan, p, &p->p->rows[i])) {
            r = emit_row(x, p, &h, &p->p->rows[i]);
            x->samples++;
        }
    if (r == 0)
        r = builder_error(x->b);
    return r == 0 && x->samples > EXPORT_SAMPLES ? finish_batch(x) : r;
}

int engine_export(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e)
{
    struct exporting x = {.fn = fn, .ctx = ctx, .generation = 1};
    int r = scan_init(&x.scan, to_engine(s), q, false, e);

    if (r == 0 && x.scan.tenant) {
        x.scan.with_traces = true;
        r = scan_profs(&x.scan, true, export_prof, &x);
    }
    if (r == 0)
        r = finish_batch(&x);
    builder_free(x.b);
    mem_free(x.list);
    mem_free(x.known);
    mem_free(x.stacks);
    scan_done(&x.scan);
    return r;
}
