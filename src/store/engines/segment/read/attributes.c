/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists labels and attributes of a selection, see store.h. Rows refer to sets of attributes and profiles to headers of a
 * dictionary, and each of them is reported once, however many rows have it. Without matchers on detail, only rows that
 * have attributes are decoded.
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

static int report_profile(struct attributing *x, const struct scan_prof *p)
{
    struct blob_header h;
    int r = first_time(&x->done[KIND_SERIES], (uint64_t) (uintptr_t) p->symbols, p->p->series);

    if (r > 0)
        r = report_series(x, &p->series->labels);
    if (r < 0 || x->is_label)
        return r;
    r = first_time(&x->done[KIND_HEADER], p->blobs->serial, p->p->header);
    if (r <= 0 || !blobs_read_header(p->blobs, p->p->header, &h))
        return r < 0 ? r : 0;
    r = blobs_set_each(p->blobs, h.attrs, report, x);
    return r < 0 ? r : blobs_resource_each(p->blobs, h.resource, report, x);
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
        r = set ? first_time(&x->done[KIND_SET], p->blobs->serial, set) : 0;
        if (r > 0)
            r = blobs_set_each(p->blobs, set, report, x);
    }
    return r < 0 || !any ? r : report_profile(x, p);
}

int engine_attributes(struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx,
                      struct err *e)
{
    struct attributing x = {.name = name, .fn = fn, .ctx = ctx};
    struct store_notes unread = {0};
    struct err own = {0};
    int r = scan_init(&x.scan, to_engine(s), q, false, q->notes ? q->notes : &unread, e ? e : &own);

    x.is_label = name.n && scan_all_have(&x.scan, name);
    x.scan.rich_only = !x.scan.match[0].n_detail;
    if (r == 0 && x.scan.tenant)
        r = scan_profs(&x.scan, true, add_prof, &x);
    for (int i = 0; i < KINDS; i++) {
        mem_free(x.done[i].v);
        map_done(&x.done[i].map);
    }
    buf_done(&x.text);
    scan_done(&x.scan);
    return r;
}
