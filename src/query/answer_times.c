/* SPDX-License-Identifier: Apache-2.0 */
/* The questions about when samples were taken, heatmap and chart, as JSON. */
#include <errno.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "model/semconv.h"
#include "query/answer_run.h"
#include "query/query_chart.h"
#include "query/query_heat.h"
#include "span/span_index.h"

enum { LEVELS = 1000 }; /* a cell of the heat map has three digits */

static void put_ns(struct buf *out, const char *key, int64_t v)
{
    buf_printf(out, "\"%s\":\"%lld\",", key, (long long) v);
}

static void put_text(struct buf *out, const char *key, struct str v)
{
    buf_printf(out, "\"%s\":", key);
    json_put_str(out, v);
    buf_putc(out, ',');
}

/* --- heat map --- */

static void put_heat(struct buf *out, const struct query_heat *h)
{
    int64_t scale = MAX((h->max + LEVELS - 1) / LEVELS, 1);
    size_t n = (size_t) h->n_columns * h->n_rows;

    buf_putc(out, '{');
    put_ns(out, "from", h->from);
    put_ns(out, "step", h->step);
    buf_printf(
        out, "\"columns\":%u,\"rows\":%u,\"scale\":%lld,\"max\":%lld,\"timed\":%lld,\"untimed\":%lld,\"samples\":%llu",
        h->n_columns, h->n_rows, (long long) scale, (long long) h->max, (long long) h->timed, (long long) h->untimed,
        (unsigned long long) h->samples);
    buf_puts(out, ",\"values\":[");
    for (size_t i = 0; i < n; i++) {
        int64_t v = h->values[i];

        if (i)
            buf_putc(out, ',');
        if (v <= 0)
            buf_putc(out, '0');
        else
            json_put_i64(out, MAX((v + scale / 2) / scale, 1));
    }
    buf_puts(out, "]}");
}

int answer_run_heatmap(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_heat h = {.arena = c->arena};
    uint64_t rows = 0;
    int r = answer_param_u64(c, "rows", &rows, e);

    if (r == 0)
        r = answer_param_duration(c, "step", &h.step, e);
    if (r == 0)
        r = answer_compile(c, &q, e);
    h.n_rows = (uint32_t) MIN(rows, (uint64_t) UINT32_MAX);
    if (r == 0)
        r = query_heat(c->store, q, &h, e);
    if (r == 0)
        put_heat(out, &h);
    return r;
}

/* --- flame chart --- */

struct span_naming {
    struct query_chart *chart;
    struct map map; /* spans by link */
};

static int name_span(void *ctx, const struct span_row *s)
{
    struct span_naming *x = ctx;
    uint64_t h = hash64(&s->link, sizeof s->link);

    for (struct map_pos i = map_find(&x->map, h); i.index != MAP_NONE; i = map_next(&x->map, i)) {
        struct chart_span *v = &x->chart->spans[i.index];

        if (memcmp(&v->link, &s->link, sizeof v->link) != 0)
            continue;
        v->name = arena_str(&x->chart->arena, s->name);
        v->from = s->start;
        v->to = wrap_add(s->start, s->duration);
    }
    return 0;
}

/* Fills in what the index knows about the spans: their names, and when they began and ended. */
static int name_spans(struct answer_request *c, struct query_chart *chart, struct err *e)
{
    struct span_filter f = {.tenant = c->tenant, .from = INT64_MAX, .to = INT64_MIN, .cancel = c->cancel};
    struct span_naming x = {.chart = chart};
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < chart->n_spans; i++) {
        f.from = MIN(f.from, wrap_sub(chart->spans[i].from, QUERY_TAKEN_BEFORE));
        f.to = MAX(f.to, chart->spans[i].to);
        r = map_insert(&x.map, hash64(&chart->spans[i].link, sizeof(struct link)), i);
    }
    if (r == 0 && chart->n_spans && c->spans)
        r = span_index_each(c->spans, &f, name_span, &x, e);
    map_done(&x.map);
    return r;
}

/* A number of a long array. */
static void put_number(struct buf *out, bool first, uint64_t v)
{
    if (!first)
        buf_putc(out, ',');
    json_put_u64(out, v);
}

/* Numbers for the nodes that cells show and for their ancestors, in the order of the tree, which begins with the root: 0, as is
 * that of nodes that are left out. To be freed with mem_free(). */
static uint32_t *number_nodes(const struct query_chart *c)
{
    const struct tree *t = c->tree;
    uint32_t *ids = mem_zalloc_array((size_t) t->n_nodes + 1, sizeof *ids), next = 0;

    for (uint32_t i = 0; ids && i < c->n_threads; i++)
        for (uint32_t k = 0; k < c->threads[i].n_cells; k++)
            for (uint32_t node = c->threads[i].cells[k].node; node && !ids[node]; node = t->parent[node])
                ids[node] = 1;
    for (uint32_t i = 1; ids && i < t->n_nodes; i++)
        ids[i] = ids[i] ? ++next : 0;
    return ids;
}

static void put_frames(struct buf *out, const struct tree *t, const uint32_t *ids)
{
    buf_puts(out, "\"names\":[");
    for (uint32_t i = 0; i < t->n_frames; i++) {
        const struct frame *f = &t->frames[i];

        if (i)
            buf_putc(out, ',');
        json_put_str(out, f->function.n ? f->function : f->mapping.n ? f->mapping : STR("[unknown]"));
    }
    buf_puts(out, "],\"kinds\":[");
    for (uint32_t i = 0; i < t->n_frames; i++)
        put_number(out, i == 0, t->frames[i].kind);
    buf_puts(out, "],\"parents\":[0");
    for (uint32_t i = 1; i < t->n_nodes; i++)
        if (ids[i])
            put_number(out, false, ids[t->parent[i]]);
    buf_puts(out, "],\"frames\":[0");
    for (uint32_t i = 1; i < t->n_nodes; i++)
        if (ids[i])
            put_number(out, false, t->frame[i]);
    buf_putc(out, ']');
}

static void put_thread(struct buf *out, const struct chart_thread *t, const uint32_t *ids)
{
    buf_putc(out, '{');
    put_text(out, "name", t->name);
    put_text(out, "service", t->service);
    buf_printf(out, "\"id\":%lld,\"pid\":%lld,\"running\":%lld,\"waiting\":%lld,\"samples\":%llu,\"cells\":[",
               (long long) t->id, (long long) t->pid, (long long) t->value[CHART_RUNNING],
               (long long) t->value[CHART_WAITING], (unsigned long long) t->samples);
    for (uint32_t i = 0; i < t->n_cells; i++) {
        put_number(out, i == 0, t->cells[i].column);
        put_number(out, false, t->cells[i].n);
        put_number(out, false, ids[t->cells[i].node]);
        put_number(out, false, t->cells[i].kind);
    }
    buf_puts(out, "]}");
}

static void put_chart(struct buf *out, const struct query_chart *c, const uint32_t *ids)
{
    buf_putc(out, '{');
    put_ns(out, "from", c->from);
    put_ns(out, "step", c->step);
    buf_printf(out, "\"columns\":%u,\"read\":%u,\"sliced\":%s,\"count\":%u,\"untimed\":%llu,", c->n_columns, c->n_read,
               c->sliced ? "true" : "false", c->n_all, (unsigned long long) c->untimed);
    put_frames(out, c->tree, ids);
    buf_puts(out, ",\"threads\":[");
    for (uint32_t i = 0; i < c->n_threads; i++) {
        if (i)
            buf_putc(out, ',');
        put_thread(out, &c->threads[i], ids);
    }
    buf_puts(out, "],\"spans\":[");
    for (uint32_t i = 0; i < c->n_spans; i++) {
        const struct chart_span *s = &c->spans[i];

        buf_puts(out, i ? ",{\"traceId\":\"" : "{\"traceId\":\"");
        hex_encode(out, s->link.trace_id, sizeof s->link.trace_id);
        buf_puts(out, "\",\"spanId\":\"");
        hex_encode(out, s->link.span_id, sizeof s->link.span_id);
        buf_puts(out, "\",");
        put_text(out, "name", s->name);
        buf_printf(out, "\"thread\":%u,\"start\":\"%lld\",\"end\":\"%lld\"}", s->thread, (long long) s->from,
                   (long long) s->to);
    }
    buf_puts(out, "]}");
}

int answer_run_chart(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_chart chart = {0};
    uint64_t columns = 0;
    int r = answer_param_limit(c, CHART_THREADS, CHART_THREADS_MAX, &chart.n_threads, e);

    if (r == 0)
        r = answer_param_u64(c, "columns", &columns, e);
    if (r == 0)
        r = answer_compile(c, &q, e);
    chart.n_columns = (uint32_t) MIN(columns, (uint64_t) CHART_COLUMNS_MAX);
    if (r == 0)
        r = query_chart(c->store, q, &chart, e);
    if (r < 0)
        return r;
    r = name_spans(c, &chart, e);
    if (r == 0) {
        _cleanup_(mem_freep) uint32_t *ids = number_nodes(&chart);

        if (ids)
            put_chart(out, &chart, ids);
        r = ids ? 0 : -ENOMEM;
    }
    query_chart_done(&chart);
    return r;
}
