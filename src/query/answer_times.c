/* SPDX-License-Identifier: Apache-2.0 */
/* The questions about when samples were taken, heatmap and chart, as JSON. */
#include <errno.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "model/semconv.h"
#include "model/types.h"
#include "query/answer_fields.h"
#include "query/answer_run.h"
#include "query/query_chart.h"
#include "query/query_heat.h"
#include "span/span_index.h"

enum { LEVELS = 1000 }; /* a cell of the heat map has three digits */

/* --- heat map --- */

/* The type of the selection; what is none of wick's has the unit that its profiles have. */
static int find_type(struct answer_request *c, const struct query *q, struct type *ret, struct err *e)
{
    struct query_types there;
    struct str name = q->q.columns[q->is_diff].selector->type;
    int r;

    if (type_by_name(name, ret))
        return 0;
    r = query_types(c->store, c->tenant, &there, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < there.n; i++)
        if (str_eq(there.v[i].name, name))
            ret->unit = arena_str(c->arena, there.v[i].unit);
    query_types_done(&there);
    return 0;
}

static int put_heat(struct answer_request *c, struct buf *out, const struct query_heat *h, const struct type *type)
{
    struct answer_heatmap x = {.type = type->name,
                               .unit = type->unit,
                               .from = h->from,
                               .step = h->step,
                               .columns = h->n_columns,
                               .rows = h->n_rows,
                               .scale = MAX((h->max + LEVELS - 1) / LEVELS, 1),
                               .max = h->max,
                               .timed = h->timed,
                               .untimed = h->untimed,
                               .samples = h->samples,
                               .n = h->n_columns * h->n_rows};

    x.values = arena_zalloc_array(h->arena, x.n + 1u, sizeof *x.values);
    if (!x.values)
        return -ENOMEM;
    for (uint32_t i = 0; i < x.n; i++)
        x.values[i] = h->values[i] > 0 ? MAX((h->values[i] + x.scale / 2) / x.scale, 1) : 0;
    answer_put(c, out, &x);
    return 0;
}

int answer_run_heatmap(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_heat h = {.arena = c->arena};
    struct type type = {0};
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
        r = find_type(c, q, &type, e);
    return r < 0 ? r : put_heat(c, out, &h, &type);
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

static int take_frames(struct query_chart *c, struct answer_chart *x, const uint32_t *ids)
{
    const struct tree *t = c->tree;

    x->names = arena_zalloc_array(&c->arena, t->n_frames + 1u, sizeof *x->names);
    x->kinds = arena_zalloc_array(&c->arena, t->n_frames + 1u, sizeof *x->kinds);
    x->parents = arena_zalloc_array(&c->arena, t->n_nodes + 1u, sizeof *x->parents);
    x->frames = arena_zalloc_array(&c->arena, t->n_nodes + 1u, sizeof *x->frames);
    if (!x->names || !x->kinds || !x->parents || !x->frames)
        return -ENOMEM;
    for (; x->n_names < t->n_frames; x->n_names++) {
        const struct frame *f = &t->frames[x->n_names];

        x->names[x->n_names] = f->function.n ? f->function : f->mapping.n ? f->mapping : STR("[unknown]");
        x->kinds[x->n_kinds++] = f->kind;
    }
    x->n_parents = x->n_frames = 1; /* the root */
    for (uint32_t i = 1; i < t->n_nodes; i++)
        if (ids[i]) {
            x->parents[x->n_parents++] = ids[t->parent[i]];
            x->frames[x->n_frames++] = t->frame[i];
        }
    return 0;
}

static int take_thread(struct query_chart *c, const struct chart_thread *t, const uint32_t *ids,
                       struct answer_thread *to)
{
    *to =
        (struct answer_thread){.name = t->name,
                               .service = t->service,
                               .id = t->id,
                               .pid = t->pid,
                               .running = t->value[CHART_RUNNING],
                               .waiting = t->value[CHART_WAITING],
                               .samples = t->samples,
                               .cells = arena_zalloc_array(&c->arena, 4 * (size_t) t->n_cells + 1, sizeof *to->cells)};
    if (!to->cells)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n_cells; i++) {
        to->cells[to->n++] = t->cells[i].column;
        to->cells[to->n++] = t->cells[i].n;
        to->cells[to->n++] = ids[t->cells[i].node];
        to->cells[to->n++] = t->cells[i].kind;
    }
    return 0;
}

static int put_chart(struct answer_request *r, struct buf *out, struct query_chart *c, const uint32_t *ids)
{
    struct answer_chart x = {.from = c->from,
                             .step = c->step,
                             .columns = c->n_columns,
                             .read = c->n_read,
                             .count = c->n_all,
                             .sliced = c->sliced,
                             .untimed = c->untimed};

    x.threads = arena_zalloc_array(&c->arena, c->n_threads + 1u, sizeof *x.threads);
    x.spans = arena_zalloc_array(&c->arena, c->n_spans + 1u, sizeof *x.spans);
    if (!x.threads || !x.spans || take_frames(c, &x, ids) < 0)
        return -ENOMEM;
    for (; x.n_threads < c->n_threads; x.n_threads++)
        if (take_thread(c, &c->threads[x.n_threads], ids, &x.threads[x.n_threads]) < 0)
            return -ENOMEM;
    for (; x.n_spans < c->n_spans; x.n_spans++) {
        const struct chart_span *s = &c->spans[x.n_spans];

        x.spans[x.n_spans] = (struct answer_chart_span){s->link, s->name, s->thread, s->from, s->to};
    }
    answer_put(r, out, &x);
    return 0;
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

        r = ids ? put_chart(c, out, &chart, ids) : -ENOMEM;
    }
    query_chart_done(&chart);
    return r;
}
