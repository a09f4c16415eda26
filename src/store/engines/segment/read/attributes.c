/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists labels and attributes of a selection, see store.h. Rows refer to sets of attributes and profiles to headers of a
 * dictionary, and each of them is reported once, however many rows have it. Without matchers on detail, only rows that
 * have attributes are decoded, and what occurs in a chunk is kept with its segment for later queries.
 */
#include <errno.h>

#include "base/mem.h"
#include "store/engines/segment/read/scan.h"

/* What was reported: pairs of a dictionary and a number of a set, header or series in it. */
struct reported {
    struct reported_key {
        uint64_t place; /* serial of the dictionary, and the kind */
        uint32_t number;
    } * v;
    size_t cap;
    uint32_t n;
    struct map map;
    struct reported_key last;
};

enum { KIND_SET, KIND_HEADER, KIND_SERIES, KINDS };

struct attributing {
    struct scan scan;
    struct str name; /* empty: all names */
    bool is_label;   /* `name` is a label of every selected series */
    store_attribute_fn fn;
    void *ctx;
    struct reported done[KINDS];
    struct buf text;
    bool by_chunk; /* every row of a selected profile is selected */
};

/* Returns 1 when it was not reported before, else 0. */
static int first_time(struct reported *d, uint64_t serial, uint32_t number)
{
    uint64_t h = hash_mix(serial ^ 0x9e3779b97f4a7c15ull, (uint64_t) number + 1);

    if (d->n && d->last.place == serial && d->last.number == number)
        return 0;
    d->last = (struct reported_key){serial, number};
    for (struct map_pos p = map_find(&d->map, h); p.index != MAP_NONE; p = map_next(&d->map, p))
        if (d->v[p.index].place == serial && d->v[p.index].number == number)
            return 0;
    if (array_reserve(d->v, d->cap, (size_t) d->n + 1, UINT32_MAX) < 0 || map_insert(&d->map, h, d->n) < 0)
        return -ENOMEM;
    d->v[d->n++] = d->last;
    return 1;
}

static int report(void *ctx, struct str key, const struct value *v)
{
    struct attributing *x = ctx;

    if (!x->name.n)
        return x->fn(x->ctx, key, (struct str){"", 0});
    if (!label_name_eq(key, x->name))
        return 0;
    buf_reset(&x->text);
    value_print(&x->text, v);
    return buf_error(&x->text) ? buf_error(&x->text) : x->fn(x->ctx, key, buf_str(&x->text));
}

static int report_series(struct attributing *x, const struct labels *l)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < l->n; i++)
        if (!x->name.n || label_name_eq(l->v[i].name, x->name))
            r = x->fn(x->ctx, l->v[i].name, x->name.n ? l->v[i].value : (struct str){"", 0});
    return r;
}

static int report_header(struct attributing *x, const struct blobs *blobs, uint32_t header)
{
    struct blob_header h;
    int r = first_time(&x->done[KIND_HEADER], blobs->serial, header);

    if (r <= 0 || !blobs_read_header(blobs, header, &h))
        return r < 0 ? r : 0;
    r = blobs_set_each(blobs, h.attrs, report, x);
    return r < 0 ? r : blobs_resource_each(blobs, h.resource, report, x);
}

static int report_set(struct attributing *x, const struct blobs *blobs, uint32_t set)
{
    int r = first_time(&x->done[KIND_SET], blobs->serial, set);

    return r > 0 ? blobs_set_each(blobs, set, report, x) : r;
}

static int report_series_once(struct attributing *x, const struct symbols *symbols, uint32_t number,
                              const struct sym_series *series)
{
    int r = first_time(&x->done[KIND_SERIES], (uint64_t) (uintptr_t) symbols, number);

    return r > 0 ? report_series(x, &series->labels) : r;
}

static int add_prof(void *ctx, const struct scan_prof *p)
{
    struct attributing *x = ctx;
    bool look = x->scan.match[0].n_detail || store_query_by_span(x->scan.q), any = !look;
    int r = 0;

    for (uint32_t i = 0; r >= 0 && i < p->p->n_rows; i++) {
        const struct row *row = &p->p->rows[i];
        uint32_t set = row->extra ? p->p->extras[row->extra - 1].attrs : 0;

        if (look && !scan_row(&x->scan, p, row))
            continue;
        any = true;
        if (x->is_label)
            break;
        r = set ? report_set(x, p->blobs, set) : 0;
    }
    if (r == 0 && any)
        r = report_series_once(x, p->symbols, p->p->series, p->series);
    return r == 0 && any && !x->is_label ? report_header(x, p->blobs, p->p->header) : r;
}

static int report_listed(struct attributing *x, const struct scan_symbols *sym, const struct blobs *blobs,
                         const struct segment_attribute *a)
{
    switch (a->kind) {
    case ATTRIBUTE_SERIES:
        return report_series_once(x, sym->symbols, a->series, sym_series(sym->symbols, a->series));
    case ATTRIBUTE_HEADER:
        return x->is_label ? 0 : report_header(x, blobs, a->number);
    case ATTRIBUTE_SET:
        return x->is_label ? 0 : report_set(x, blobs, a->number);
    }
    return 0;
}

/* Reports what is listed of the chunk if all of its profiles are in the time range; otherwise scans them. */
static int add_chunk(void *ctx, const struct scan_symbols *sym, const struct scan_part *part)
{
    struct attributing *x = ctx;
    const struct store_column *c = &x->scan.q->columns[0];
    struct segment_attributes list = {0};
    const struct blobs *blobs;
    struct arena a;
    int r;

    if (!x->by_chunk)
        return scan_chunk(&x->scan, sym, part, add_prof, x);
    r = segment_blobs(part->segment, &blobs, x->scan.e);
    if (r < 0)
        return scan_damage(&x->scan, r, err_message(x->scan.e, r));
    arena_init(&a, 0);
    r = scan_attributes(&x->scan, part, &a, &list);
    if (r == 0 && list.n && (list.first < c->from || list.last >= c->to))
        r = scan_chunk(&x->scan, sym, part, add_prof, x);
    else
        for (uint32_t i = 0; r == 0 && i < list.n; i++)
            if (list.v[i].series < sym->n_series && sym->bits[list.v[i].series])
                r = report_listed(x, sym, blobs, &list.v[i]);
    arena_done(&a);
    return r;
}

int engine_attributes(struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx,
                      struct err *e)
{
    struct attributing x = {.name = name, .fn = fn, .ctx = ctx};
    int r = scan_init(&x.scan, to_engine(s), q, false, e);

    x.is_label = name.n && scan_all_have(&x.scan, name);
    x.scan.rich_only = !x.scan.match[0].n_detail;
    x.by_chunk = !x.scan.needs_detail[0] && !x.scan.n_tombstones;
    if (r == 0 && x.scan.tenant)
        r = scan_memtables(&x.scan, add_prof, &x);
    if (r == 0 && x.scan.tenant)
        r = scan_chunks(&x.scan, add_chunk, &x);
    for (int i = 0; i < KINDS; i++) {
        mem_free(x.done[i].v);
        map_done(&x.done[i].map);
    }
    buf_done(&x.text);
    scan_done(&x.scan);
    return r;
}
