/* SPDX-License-Identifier: Apache-2.0 */
/* Selects series and scans the profiles and rows of a range, in memtables and segments; see scan.h. */
#include "store/engines/segment/read/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/store_spans.h"

enum { READ_AHEAD = 16 << 20 }; /* bytes of a segment in the object store */

static int add_symbols(struct scan *s, struct symbols *x)
{
    struct scan_symbols *v;

    if (x->tenant != s->tenant->number || scan_find_symbols(s, x))
        return 0;
    v = mem_realloc_array(s->symbols, s->n_symbols + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    s->symbols = v;
    v = &s->symbols[s->n_symbols++];
    *v = (struct scan_symbols){
        .symbols = x, .n_series = pinned_count(&x->series), .n_services = pinned_count(&x->services)};
    v->bits = mem_zalloc_array(v->n_series + 1, 1);
    v->services = mem_zalloc_array(v->n_services + 1, 1);
    v->deleted = s->n_tombstones ? mem_zalloc_array((size_t) s->n_tombstones * v->n_series + 1, 1) : NULL;
    if (!v->bits || !v->services || (s->n_tombstones && !v->deleted))
        return -ENOMEM;
    for (uint32_t i = 0; i < v->n_series; i++) {
        const struct sym_series *series = sym_series(x, i);

        for (uint32_t c = 0; c < s->q->n_columns; c++)
            if (match_series(&s->match[c], series->type.name, &series->labels)) {
                v->bits[i] |= (uint8_t) (1u << c);
                s->undecided[c] |= !match_decides(&s->match[c], &series->labels);
            }
        if (v->bits[i] && series->service < v->n_services)
            v->services[series->service] |= v->bits[i];
        for (uint32_t t = 0; v->bits[i] && t < s->n_tombstones; t++)
            v->deleted[(size_t) t * v->n_series + i] = tombstone_matches(s->tombstones[t], series);
    }
    return 0;
}

static bool in_columns(const struct scan *s, int64_t first, int64_t last)
{
    for (uint32_t c = 0; c < s->q->n_columns; c++)
        if (last >= s->q->columns[c].from && first < s->q->columns[c].to)
            return true;
    return false;
}

static int find_tombstones(struct scan *s)
{
    if (!s->snap->n_tombstones)
        return 0;
    s->tombstones = mem_alloc(s->snap->n_tombstones * sizeof *s->tombstones);
    if (!s->tombstones)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->snap->n_tombstones; i++) {
        struct tombstone *t = s->snap->tombstones[i];

        if (t->tenant == s->tenant->number && in_columns(s, t->from, t->to - 1))
            s->tombstones[s->n_tombstones++] = t;
    }
    return 0;
}

enum hidden scan_hidden_among(const struct scan *s, const struct scan_symbols *sym, const struct segment *segment,
                              const struct chunk_entry *e, int level)
{
    bool whole = level == 0 && !segment->meta.has_detail, part = false;

    for (uint32_t i = 0; e->series < sym->n_series && i < s->n_tombstones; i++) {
        const struct tombstone *t = s->tombstones[i];

        if (segment->meta.log > t->log || !sym->deleted[(size_t) i * sym->n_series + e->series])
            continue;
        if (tombstone_covers(t, e->min_time) && (whole || tombstone_covers(t, e->max_time)))
            return HIDDEN_ALL;
        part |= !whole && e->min_time < t->to && e->max_time >= t->from;
    }
    return part ? HIDDEN_PART : HIDDEN_NONE;
}

int scan_init(struct scan *s, struct engine *g, const struct store_query *q, bool need_type, struct err *e)
{
    int r = 0;

    *s = (struct scan){.g = g, .q = q, .notes = q->notes ? q->notes : &s->unread, .e = e ? e : &s->own_err};
    s->tenant = engine_find_tenant(g, q->tenant);
    for (uint32_t c = 0; r == 0 && c < q->n_columns; c++) {
        r = match_column(&s->match[c], &q->columns[c], g->limits.allow, need_type, e);
        s->with_traces |= s->match[c].spans != NULL;
    }
    if (r < 0 || !s->tenant)
        return r;
    s->snap = snapshot_get(g);
    r = find_tombstones(s);
    for (uint32_t i = 0; r == 0 && i < s->snap->n_segments; i++)
        r = add_symbols(s, s->snap->segments[i].symbols);
    for (uint32_t i = 0; r == 0 && i < s->snap->n_memtables; i++)
        for (struct mempart *p = atomic_load(&s->snap->memtables[i]->parts); r == 0 && p; p = p->next)
            r = add_symbols(s, p->symbols);
    for (uint32_t c = 0; r == 0 && c < q->n_columns; c++) {
        if (!s->undecided[c])
            s->match[c].n_detail = 0; /* labels of the series decided */
        s->needs_detail[c] = s->match[c].n_detail || s->match[c].spans || q->has_trace || q->has_span ||
                             q->has_profile || q->columns[c].taken_to;
    }
    return r;
}

bool scan_all_have(const struct scan *s, struct str name)
{
    if (match_is_label(s->g->limits.allow, name))
        return true;
    for (uint32_t i = 0; i < s->n_symbols; i++)
        for (uint32_t k = 0; k < s->symbols[i].n_series; k++)
            if (s->symbols[i].bits[k] && !labels_get(&sym_series(s->symbols[i].symbols, k)->labels, name).n)
                return false;
    return true;
}

void scan_done(struct scan *s)
{
    for (uint32_t i = 0; i < s->n_symbols; i++) {
        mem_free(s->symbols[i].bits);
        mem_free(s->symbols[i].services);
        mem_free(s->symbols[i].deleted);
    }
    mem_free(s->symbols);
    mem_free(s->tombstones);
    snapshot_unref(s->snap);
}

const struct scan_symbols *scan_find_symbols(const struct scan *s, const struct symbols *symbols)
{
    for (uint32_t i = 0; i < s->n_symbols; i++)
        if (s->symbols[i].symbols == symbols)
            return &s->symbols[i];
    return NULL;
}

int scan_damage(struct scan *s, int r, const char *what)
{
    if (r != -EBADMSG && r != -EIO && r != -ENODATA)
        return r;
    engine_damage(s->g, what);
    if (!s->notes->damaged++)
        snprintf(s->notes->damage, sizeof s->notes->damage, "%s", what);
    return 0;
}

int scan_damaged_chunk(struct scan *s, int r, const struct segment *segment, uint64_t off)
{
    char what[100];

    snprintf(what, sizeof what, "segment %llu at %llu: a chunk's columns are damaged",
             (unsigned long long) segment->meta.number, (unsigned long long) off);
    return scan_damage(s, r, what);
}

/* --- rows --- */

void scan_attribute(const struct scan_prof *p, uint32_t set, struct str name, struct buf *out)
{
    struct blob_header h;

    if (!blobs_set_find(p->blobs, set, name, out) && blobs_read_header(p->blobs, p->p->header, &h) &&
        !blobs_set_find(p->blobs, h.attrs, name, out))
        blobs_resource_find(p->blobs, h.resource, name, out);
}

static bool detail_matches(const struct scan_prof *p, const struct row *row, const struct matcher *m)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    if (labels_get(&p->series->labels, m->name).n)
        return true; /* match_series() */
    scan_attribute(p, row && row->extra ? p->p->extras[row->extra - 1].attrs : 0, m->name, &text);
    return matcher_matches(m, buf_str(&text));
}

bool scan_row(const struct scan *s, const struct scan_prof *p, const struct row *row)
{
    const struct extra *x = row->extra ? &p->p->extras[row->extra - 1] : NULL;
    const struct match *m = &s->match[p->column];

    if (s->q->has_trace && (!x || !x->has_link || memcmp(x->link.trace_id, s->q->trace_id, 16) != 0))
        return false;
    if (s->q->has_span && (!x || !x->has_link || memcmp(x->link.span_id, s->q->span_id, 8) != 0))
        return false;
    if (m->spans && (!x || !x->has_link || !store_span_set_has(m->spans, &x->link)))
        return false;
    if (!store_column_taken(m->column, x && x->timestamp ? (int64_t) x->timestamp : p->p->time_ns))
        return false;
    for (uint32_t i = 0; i < m->n_detail; i++)
        if (!detail_matches(p, row, m->detail[i]))
            return false;
    return true;
}

/* --- profiles --- */

/* Where profiles come from. */
struct scan_source {
    const struct scan_symbols *sym;
    uint64_t log;
    const struct blobs *blobs;
};

/* Calls fn for each column that selects the profile. */
static int offer(struct scan *s, const struct scan_source *from, const struct stored_profile *p, scan_fn fn, void *ctx)
{
    const struct scan_symbols *sym = from->sym;
    int r = 0;

    if (p->series >= sym->n_series || !sym->bits[p->series] || scan_deleted(s, sym, from->log, p->series, p->time_ns))
        return 0;
    for (uint32_t c = 0; r == 0 && c < s->q->n_columns; c++) {
        const struct store_column *col = &s->q->columns[c];
        struct scan_prof x = {p, sym->symbols, sym_series(sym->symbols, p->series), from->blobs, c};

        if (!(sym->bits[p->series] >> c & 1) || p->time_ns < col->from || p->time_ns >= col->to)
            continue;
        if (s->q->has_profile &&
            !id128_eq(s->q->profile, match_profile_handle(x.series->labels_id, p->instance, x.series->type.name,
                                                          p->time_ns, p->duration_ns, p->value)))
            continue;
        r = fn(ctx, &x);
    }
    return r;
}

int scan_memtables(struct scan *s, scan_fn fn, void *ctx)
{
    int r = 0;

    for (uint32_t i = 0; s->snap && r == 0 && i < s->snap->n_memtables; i++)
        for (struct mempart *p = atomic_load(&s->snap->memtables[i]->parts); r == 0 && p; p = p->next) {
            const struct scan_symbols *sym = scan_find_symbols(s, p->symbols);
            struct scan_source from = {sym, s->snap->memtables[i]->log, &p->blobs};
            uint32_t n = pinned_count(&p->profs);

            for (uint32_t k = 0; sym && r == 0 && k < n; k++)
                r = offer(s, &from, pinned_at(&p->profs, k), fn, ctx);
        }
    return r;
}

/* Where a chunk's profiles are: in the segment's cache, or decoded here. */
struct opened_chunk {
    struct chunk c;
    struct arena a;
    struct chunk_profiles p;
};

static int decode_chunk(struct scan *s, const struct scan_part *part, struct opened_chunk *x)
{
    bool plain = !store_query_by_span(s->q) && !s->rich_only; /* rows of a span are never plain */
    struct chunk_wanted wanted = {.plain = plain,
                                  .traces = s->traces.ids,
                                  .n_traces = s->traces.n,
                                  .one_trace = s->q->has_trace ? s->q->trace_id : NULL,
                                  .trace = s->traces.wanted};
    unsigned sections = part->with_rows ? (plain ? ~0u : ~(1u << SEC_DETAIL)) : 1u << SEC_PROFILES;
    int r = segment_chunk(part->segment, part->off, part->len, sections, &x->c, s->e);

    if (r < 0)
        return scan_damage(s, r, err_message(s->e, r));
    r = chunk_decode_profiles(&x->c, &x->a, &x->p);
    if (r == 0 && part->with_rows)
        r = s->only_counts ? chunk_count_rows(&x->c, &x->a, &x->p) : chunk_decode_rows(&x->c, &x->a, &x->p, &wanted);
    if (r < 0)
        x->p.n_profs = 0;
    return r == -EBADMSG ? scan_damaged_chunk(s, r, part->segment, part->off) : r;
}

static void set_instance(struct stored_profile *p, const struct blobs *blobs)
{
    struct blob_header h;

    if (!p->gauge && blobs_read_header(blobs, p->header, &h))
        p->instance = blobs_instance(blobs, h.resource);
}

static bool is_wanted(const struct scan_symbols *sym, const struct scan_part *part, const struct stored_profile *p)
{
    return p->series < sym->n_series && sym->bits[p->series] &&
           (part->service == UINT32_MAX || sym_series(sym->symbols, p->series)->service == part->service);
}

int scan_chunk(struct scan *s, const struct scan_symbols *sym, const struct scan_part *part, scan_fn fn, void *ctx)
{
    struct segment *segment = part->segment;
    struct scan_source from = {sym, segment->meta.log, NULL};
    struct opened_chunk x = {0};
    bool counted = part->with_rows && s->only_counts, listing = counted || !part->with_rows, known = false;
    int r = segment_blobs(segment, &from.blobs, s->e);

    if (r < 0)
        return scan_damage(s, r, err_message(s->e, r));
    arena_init(&x.a, 0);
    known = listing && segment_listed_find(segment, part->off, counted, &x.p);
    if (!known)
        r = decode_chunk(s, part, &x);
    for (uint32_t i = 0; r == 0 && !known && i < x.p.n_profs; i++)
        if (listing || is_wanted(sym, part, &x.p.profs[i]))
            set_instance(&x.p.profs[i], from.blobs);
    if (r == 0 && listing && !known && x.p.n_profs)
        segment_listed_keep(segment, part->off, counted, &x.p);
    for (uint32_t i = 0; r == 0 && i < x.p.n_profs; i++)
        if (is_wanted(sym, part, &x.p.profs[i]))
            r = offer(s, &from, &x.p.profs[i], fn, ctx);
    arena_done(&x.a);
    chunk_done(&x.c);
    return r;
}

/* --- attributes of a chunk --- */

static int compare_attributes(const void *a, const void *b)
{
    const struct segment_attribute *x = a, *y = b;

    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : (x->number > y->number) - (x->number < y->number);
}

/* Lists what occurs in the profiles, in the arena. */
static int list_attributes(const struct chunk_profiles *p, struct arena *a, struct segment_attributes *ret)
{
    struct segment_attribute *v;
    size_t most = 0, n = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->n_profs; i++)
        most += 2 + (size_t) p->profs[i].n_rows;
    v = arena_alloc(a, (most + 1) * sizeof *v);
    if (!v)
        return -ENOMEM;
    *ret = (struct segment_attributes){.first = INT64_MAX, .last = INT64_MIN, .v = v};
    for (uint32_t i = 0; i < p->n_profs; i++) {
        const struct stored_profile *x = &p->profs[i];

        ret->first = MIN(ret->first, x->time_ns);
        ret->last = MAX(ret->last, x->time_ns);
        v[n++] = (struct segment_attribute){x->series, ATTRIBUTE_SERIES, 0};
        v[n++] = (struct segment_attribute){x->series, ATTRIBUTE_HEADER, x->header};
        for (uint32_t k = 0; k < x->n_rows; k++) {
            uint32_t set = x->rows[k].extra ? x->extras[x->rows[k].extra - 1].attrs : 0;

            if (set && !(v[n - 1].kind == ATTRIBUTE_SET && v[n - 1].number == set)) /* often the one before */
                v[n++] = (struct segment_attribute){x->series, ATTRIBUTE_SET, set};
        }
    }
    if (n)
        qsort(v, n, sizeof *v, compare_attributes);
    for (size_t i = 0; i < n; i++)
        if (!i || compare_attributes(&v[i], &v[kept - 1]) != 0)
            v[kept++] = v[i];
    ret->n = kept;
    return 0;
}

int scan_attributes(struct scan *s, const struct scan_part *part, struct arena *a, struct segment_attributes *ret)
{
    const struct segment_attributes *known = segment_attributes_find(part->segment, part->off);
    struct opened_chunk x = {0};
    int r;

    if (known) {
        *ret = *known;
        return 0;
    }
    *ret = (struct segment_attributes){0};
    arena_init(&x.a, 0);
    r = decode_chunk(s, part, &x);
    if (r == 0 && x.p.n_profs)
        r = list_attributes(&x.p, a, ret);
    if (r == 0 && x.p.n_profs)
        segment_attributes_keep(part->segment, part->off, ret);
    arena_done(&x.a);
    chunk_done(&x.c);
    return r;
}

/* --- what will be read --- */

int scan_plan_add(struct scan_plan *p, uint64_t off, uint32_t len)
{
    return array_push(p->v, p->n, p->cap, UINT32_MAX, (struct segment_range){off, len}) < 0 ? -ENOMEM : 0;
}

int scan_plan_run(struct scan *s, struct scan_plan *p, struct segment *segment)
{
    int r = segment_prefetch(segment, p->v, p->n, s->e);

    p->n = 0;
    return r < 0 ? scan_damage(s, r, err_message(s->e, r)) : 0;
}

void scan_plan_done(struct scan_plan *p)
{
    mem_free(p->v);
    *p = (struct scan_plan){0};
}

int scan_expect(struct scan *s, const struct scan_expect *x)
{
    struct scan_plan plan = {0};
    int r = 0;

    for (uint32_t i = 0; x->segment->stub && r == 0 && i < x->dir->n; i++) {
        const struct dir_entry *d = &x->dir->v[i];

        if (d->e.series < x->sym->n_series && x->sym->bits[d->e.series] &&
            in_columns(s, d->e.min_time, d->e.max_time) && (!i || d->off != d[-1].off || !plan.n))
            r = scan_plan_add(&plan, d->off, x->whole ? d->len : d->head);
    }
    if (r == 0)
        r = scan_plan_run(s, &plan, x->segment);
    scan_plan_done(&plan);
    return r;
}

/* --- chunks with rows --- */

static int add_chunk(void *ctx, uint64_t off, uint32_t len)
{
    struct scan_plan *l = ctx;

    for (uint32_t i = l->n; i-- > 0 && i + 8 > l->n;)
        if (l->v[i].off == off)
            return 0;
    return scan_plan_add(l, off, len);
}

static int chunk_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

/* Lists the chunks of a segment that may contain selected data, each once; for a trace, without their detail. */
static int list_chunks(struct scan *s, const struct scan_symbols *sym, struct segment *segment, struct scan_plan *l)
{
    const struct segment_footer *f;
    struct arena a;
    int r;

    if (s->q->has_trace)
        return segment_find_trace(segment, s->q->trace_id, &s->traces.wanted, add_chunk, l, s->e);
    r = segment_footer(segment, &f, s->e);
    arena_init(&a, 0);
    for (uint32_t i = 0; r == 0 && i < f->n_groups; i++) {
        struct directory dir;

        if (f->groups[i].service >= sym->n_services || !sym->services[f->groups[i].service])
            continue;
        r = segment_directory(segment, &f->groups[i], 0, &a, &dir, s->e);
        for (uint32_t k = 0; r == 0 && k < dir.n; k++) {
            const struct dir_entry *d = &dir.v[k];

            if (d->e.series < sym->n_series && sym->bits[d->e.series] && in_columns(s, d->e.min_time, d->e.max_time))
                r = add_chunk(l, d->off, d->len);
        }
    }
    arena_done(&a);
    return r;
}

/* Reads the next chunks of a segment in the object store together. Returns the number of the first that was not read. */
static uint32_t read_ahead(struct scan *s, struct segment *segment, const struct scan_plan *l, uint32_t from, int *ret)
{
    uint64_t bytes = 0;
    uint32_t n = from;

    if (!segment->stub)
        return UINT32_MAX;
    do
        bytes += l->v[n++].len;
    while (n < l->n && bytes + l->v[n].len <= READ_AHEAD);
    *ret = segment_prefetch(segment, l->v + from, n - from, s->e);
    if (*ret < 0)
        *ret = scan_damage(s, *ret, err_message(s->e, *ret));
    return n;
}

static int scan_segment(struct scan *s, const struct scan_symbols *sym, struct segment *segment, scan_chunk_fn fn,
                        void *ctx)
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(segment);
    struct scan_plan l = {0};
    uint32_t ahead = 0;
    int r = list_chunks(s, sym, segment, &l);

    arena_init(&s->traces.arena, 0);
    if (r == 0 && l.n && s->with_traces && !s->q->has_trace)
        r = segment_trace_ids(segment, &s->traces.arena, &s->traces.ids, &s->traces.n, s->e);
    if (r < 0)
        r = scan_damage(s, r, err_message(s->e, r));
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, chunk_cmp);
    for (uint32_t i = 0; r == 0 && i < l.n; i++) {
        if (i && l.v[i].off == l.v[i - 1].off)
            continue;
        if (i >= ahead) {
            ahead = read_ahead(s, segment, &l, i, &r);
            if (r < 0)
                break;
        }
        r = scan_cancelled(s) ? -ECANCELED
                              : fn(ctx, sym, &(struct scan_part){segment, l.v[i].off, l.v[i].len, UINT32_MAX, true});
    }
    mem_free(l.v);
    arena_done(&s->traces.arena);
    s->traces.ids = NULL;
    return r;
}

int scan_chunks(struct scan *s, scan_chunk_fn fn, void *ctx)
{
    int r = 0;

    for (uint32_t i = 0; s->snap && r == 0 && i < s->snap->n_segments; i++) {
        struct segment *x = s->snap->segments[i].segment;
        const struct scan_symbols *sym = scan_find_symbols(s, s->snap->segments[i].symbols);

        if (!sym || !in_columns(s, x->meta.t0, x->meta.t1))
            continue;
        if (!x->meta.has_detail) {
            s->notes->coarse = true;
            continue;
        }
        r = scan_segment(s, sym, x, fn, ctx);
    }
    return r;
}

struct chunk_profs {
    struct scan *s;
    bool with_rows;
    scan_fn fn;
    void *ctx;
};

static int scan_chunk_profs(void *ctx, const struct scan_symbols *sym, const struct scan_part *part)
{
    struct chunk_profs *x = ctx;
    struct scan_part p = *part;

    p.with_rows = x->with_rows;
    return scan_chunk(x->s, sym, &p, x->fn, x->ctx);
}

int scan_profs(struct scan *s, bool with_rows, scan_fn fn, void *ctx)
{
    int r = scan_memtables(s, fn, ctx);

    return r ? r : scan_chunks(s, scan_chunk_profs, &(struct chunk_profs){s, with_rows, fn, ctx});
}
