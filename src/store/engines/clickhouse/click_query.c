/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to engine `clickhouse`: each says which columns it needs, loads them, and lets engine `memory` compute the
 * answer; see click_load.h. */
#include <errno.h>

#include "base/mem.h"
#include "store/engines/clickhouse/click_load.h"
#include "store/store_spans.h"
#include "store/store_table.h"

enum { EXPORT_SAMPLES = 500000 };
#define EXPORT_STEP (60 * NS_PER_S)

/* The server has selected by trace and span already. */
static void drop_links(struct click_load *l)
{
    l->rest.has_trace = l->rest.has_span = false;
}

static bool is_linked(const struct store_query *q)
{
    return q->has_trace || q->has_span || q->columns[0].spans;
}

/* --- trees --- */

static int load_trees(struct click_load *l, struct click *c, const struct store_query *q, struct err *e)
{
    int r = click_load_begin(l, c, q, true, e);
    bool gauge = false;

    for (uint32_t i = 0; r == 0 && i < q->n_columns; i++)
        gauge |= l->columns[i].type.rule == TYPE_GAUGE;
    for (uint32_t i = 0; r == 0 && i < q->n_columns; i++) {
        bool detail = l->columns[i].match.n_detail;
        struct click_want want = {.stack = true, .samples = true, .meta = detail, .attrs = detail};

        want.time = gauge; /* averages need every snapshot */
        want.link = gauge && is_linked(q);
        r = click_load_column(l, i, &want, true, e);
    }
    if (!gauge)
        drop_links(l);
    return r < 0 ? r : click_load_finish(l, e);
}

int click_select(struct store *s, const struct store_query *q, struct tree **ret, struct err *e)
{
    _cleanup_(click_load_done) struct click_load l;
    int r = load_trees(&l, to_click(s), q, e);

    if (r == 0)
        r = memory_select(&l.memory->store, &l.rest, ret, e);
    if (r == 0)
        click_load_note(&l);
    return r;
}

int click_table_of(struct store *s, const struct store_query *q, const struct store_table_query *tq,
                   struct store_table *ret, struct err *e)
{
    _cleanup_(click_load_done) struct click_load l;
    int r = load_trees(&l, to_click(s), q, e);

    if (r == 0)
        r = memory_table(&l.memory->store, &l.rest, tq, ret, e);
    if (r == 0)
        click_load_note(&l);
    return r;
}

/* --- one column --- */

/* Loads column 0 as it is wanted; its times stay. */
static int load_one(struct click_load *l, const struct click_want *want, struct err *e)
{
    int r = click_load_column(l, 0, want, false, e);

    return r < 0 ? r : click_load_finish(l, e);
}

int click_series(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                 struct store_points *ret, struct err *e)
{
    _cleanup_(click_load_done) struct click_load l;
    struct click_want want = {.series = true, .samples = true, .profiles = true, .stack = sq->function.n != 0};
    int r = click_load_begin(&l, to_click(s), q, true, e);

    if (r < 0)
        return r;
    want.meta = want.attrs = l.columns[0].match.n_detail != 0;
    for (uint32_t i = 0; i < sq->n_by && i < STORE_BY_MAX; i++)
        if (!match_is_label(s->labels, sq->by[i]))
            want.meta = want.attrs = true;
    want.time = l.columns[0].type.rule == TYPE_GAUGE; /* averages need every snapshot */
    want.step = want.time ? 0 : sq->step;
    want.link = want.time && is_linked(q);
    r = load_one(&l, &want, e);
    if (!want.time)
        drop_links(&l);
    if (r == 0)
        r = memory_series(&l.memory->store, &l.rest, sq, ret, e);
    if (r == 0)
        click_load_note(&l);
    return r;
}

int click_spans(struct store *s, const struct store_query *q, struct store_spans *ret, struct err *e)
{
    _cleanup_(click_load_done) struct click_load l;
    struct click_want want = {.link = true, .ts = true, .time = true, .samples = true};
    int r = click_load_begin(&l, to_click(s), q, true, e);

    if (r < 0)
        return r;
    want.attrs = l.columns[0].match.n_detail != 0;
    r = load_one(&l, &want, e);
    if (r == 0)
        r = memory_spans(&l.memory->store, &l.rest, ret, e);
    if (r == 0)
        click_load_note(&l);
    return r;
}

int click_attributes(struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx,
                     struct err *e)
{
    _cleanup_(click_load_done) struct click_load l;
    bool is_label = match_is_label(s->labels, name), detail;
    struct click_want want = {.series = true};
    int r = click_load_begin(&l, to_click(s), q, false, e);

    if (r < 0)
        return r;
    detail = l.columns[0].match.n_detail;
    want.meta = !is_label || detail;
    want.attrs = want.meta;
    want.samples = want.attrs || is_linked(q);
    want.profiles = !is_linked(q);
    r = load_one(&l, &want, e);
    drop_links(&l);
    return r < 0 ? r : memory_attributes(&l.memory->store, &l.rest, name, fn, ctx, e);
}

/* --- profiles --- */

static int report_profile(const struct click_load *l, uint32_t i, store_profile_fn fn, void *ctx)
{
    const struct memory_item *it = &l->memory->items[i];
    const struct profile *p = &it->batch->profiles[it->in.profile];
    struct store_profile out = {.time_ns = it->time_ns,
                                .duration_ns = p->duration_ns,
                                .value = it->value,
                                .n_samples = (uint32_t) MIN(l->counts[i], (uint64_t) UINT32_MAX),
                                .type = &it->in.type,
                                .labels = it->labels};

    if (str_is(batch_string(it->batch, p->period_type.unit), "nanoseconds"))
        out.period_ns = p->period;
    memcpy(out.id, p->id, 16);
    out.handle =
        match_profile_handle(it->labels_id, it->instance, it->in.type.name, it->time_ns, p->duration_ns, it->value);
    return fn(ctx, &out);
}

int click_profiles(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e)
{
    _cleanup_(click_load_done) struct click_load l;
    struct click_want want = {.time = true};
    int r = click_load_begin(&l, to_click(s), q, false, e);

    if (r < 0)
        return r;
    want.attrs = l.columns[0].match.n_detail != 0;
    want.link = is_linked(q);
    want.samples = want.attrs || want.link;
    r = load_one(&l, &want, e);
    if (r == 0)
        click_load_note(&l);
    if (r == 0 && want.samples)
        return memory_profiles(&l.memory->store, &l.rest, fn, ctx, e);
    for (uint32_t i = 0; r == 0 && i < l.memory->n; i++)
        r = report_profile(&l, i, fn, ctx);
    return r;
}

static int export_range(struct click *c, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e)
{
    _cleanup_(click_load_done) struct click_load l;
    struct click_want want = {.stack = true, .attrs = true, .link = true, .ts = true, .time = true, .samples = true};
    int r = click_load_begin(&l, c, q, false, e);

    if (r == 0)
        r = load_one(&l, &want, e);
    if (r == 0)
        click_load_note(&l);
    return r < 0 ? r : memory_export(&l.memory->store, &l.rest, fn, ctx, e);
}

/* The samples of each step of time, in order: u64 pairs of a step and their number. */
static int ask_steps(struct click *c, const struct store_query *q, struct buf *answer, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT;
    struct click_call call = {.cancel = q->cancel};

    buf_printf(&sql, "SELECT toInt64(intDiv(time, %lld)) AS step, toUInt64(sum(samples)) FROM profiles WHERE tenant = ",
               (long long) EXPORT_STEP);
    click_put_text(&sql, str_from(q->tenant));
    buf_printf(&sql, " AND time >= toInt64(%lld) AND time < toInt64(%lld) GROUP BY step ORDER BY step FORMAT RowBinary",
               (long long) q->columns[0].from, (long long) q->columns[0].to);
    return buf_error(&sql) ? buf_error(&sql) : click_send(&c->http, buf_str(&sql), &call, answer, e);
}

/* Exports in parts that fit in memory. */
int click_export(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e)
{
    _cleanup_(buf_done) struct buf steps = BUF_INIT;
    struct store_query part = *q;
    struct store_column *c = &part.columns[0];
    uint64_t samples = 0;
    int r = ask_steps(to_click(s), q, &steps, e);

    for (size_t at = 0; r == 0 && at + 16 <= steps.n; at += 16) {
        int64_t begin = (int64_t) load_u64(steps.p + at) * EXPORT_STEP;
        uint64_t n = load_u64(steps.p + at + 8);

        if (samples && samples + n > EXPORT_SAMPLES && begin > c->from) {
            c->to = begin;
            r = export_range(to_click(s), &part, fn, ctx, e);
            c->from = begin;
            samples = 0;
        }
        samples += n;
    }
    c->to = q->columns[0].to;
    return r < 0 || !steps.n ? r : export_range(to_click(s), &part, fn, ctx, e);
}

/* --- series --- */

struct one_series {
    struct str type, unit;
    uint64_t id;
};

static int report_series(struct click_cache *cache, const char *tenant, const struct one_series *v, store_series_fn fn,
                         void *ctx)
{
    struct labels labels;
    struct type type;
    struct arena a;
    int r;

    arena_init(&a, 0);
    pthread_mutex_lock(&cache->lock);
    r = click_labels_of(cache, tenant, v->id, &a, &labels);
    pthread_mutex_unlock(&cache->lock);
    click_make_type(v->type, v->unit, &type);
    if (r >= 0)
        r = fn(ctx, &type, &labels);
    arena_done(&a);
    return r;
}

int click_each_series(struct store *s, const struct store_range *range, store_series_fn fn, void *ctx)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, answer = BUF_INIT;
    _cleanup_(click_cache_unrefp) struct click_cache *cache = click_take_cache(to_click(s));
    _cleanup_(mem_freep) struct id128 *ids = NULL;
    struct click_http *http = &to_click(s)->http;
    struct click_call call = {0};
    struct cursor in;
    uint32_t n = 0;
    int r = cache ? 0 : -ENOMEM;

    buf_puts(&sql, "SELECT type, any(unit), series FROM profiles WHERE tenant = ");
    click_put_text(&sql, str_from(range->tenant));
    buf_printf(&sql, " AND time >= toInt64(%lld) AND time < toInt64(%lld) GROUP BY type, series FORMAT RowBinary",
               (long long) range->from, (long long) range->to);
    if (r == 0)
        r = click_send(http, buf_str(&sql), &call, &answer, NULL);
    ids = r == 0 ? mem_zalloc_array(answer.n / 10 + 1, sizeof *ids) : NULL;
    if (r == 0 && !ids)
        r = -ENOMEM;
    if (r < 0)
        return r;
    for (in = cursor_of(answer.p, answer.n); in.p < in.end;) {
        get_bytes(&in);
        get_bytes(&in);
        ids[n++] = click_id64(get_u64(&in));
    }
    r = in.bad ? -EPROTO
               : click_cache_fetch(cache, http, &(struct click_ids){range->tenant, CLICK_SERIES, ids, n}, NULL);
    for (in = cursor_of(answer.p, answer.n); r == 0 && in.p < in.end;) {
        struct one_series v = {.type = get_bytes(&in), .unit = get_bytes(&in)};

        v.id = get_u64(&in);
        r = report_series(cache, range->tenant, &v, fn, ctx);
    }
    return r;
}
