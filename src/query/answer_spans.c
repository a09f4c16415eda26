/* SPDX-License-Identifier: Apache-2.0 */
/* The questions about spans (answer_run.h): those that profiles are linked to, from the store, with what the span index
 * knows about them, and those about latency, from the index alone. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "model/semconv.h"
#include "query/answer_fields.h"
#include "query/answer_run.h"

enum { ROWS_DEFAULT = 100, ROWS_MAX = 100000, TRACE_MAX = 20000, SLOTS_DEFAULT = 60, HEAT_ROWS_DEFAULT = 30 };
#define AROUND_SPAN (3600 * NS_PER_S) /* a span may have begun before its first sample */

/* --- known spans --- */

struct answered_spans {
    struct answer_span *v;
    uint32_t n;
    size_t cap;
    struct map map; /* by link */
    struct arena *arena;
};

static void answered_done(struct answered_spans *l)
{
    mem_free(l->v);
    map_done(&l->map);
}

static struct answer_span *find_answered(struct answered_spans *l, const struct link *k)
{
    for (struct map_pos p = map_find(&l->map, hash64(k, sizeof *k)); p.index != MAP_NONE; p = map_next(&l->map, p))
        if (memcmp(&l->v[p.index].row.link, k, sizeof *k) == 0)
            return &l->v[p.index];
    return NULL;
}

/* Adds a span that is not in the list. NULL: no memory. */
static struct answer_span *add_answered(struct answered_spans *l, const struct link *k)
{
    if (array_push(l->v, l->n, l->cap, UINT32_MAX, (struct answer_span){.row.link = *k}) < 0 ||
        map_insert(&l->map, hash64(k, sizeof *k), l->n - 1) < 0)
        return NULL;
    return &l->v[l->n - 1];
}

static void learn(struct answered_spans *l, struct answer_span *x, const struct span_row *s)
{
    static const uint8_t none[8];

    x->is_child = memcmp(s->parent, none, sizeof none) != 0;
    x->row = *s;
    x->row.name = arena_str(l->arena, s->name);
    x->row.service = arena_str(l->arena, s->service);
    x->row.version = arena_str(l->arena, s->version);
    x->row.instance = (struct str){0};
    x->known = true;
}

/* Fills in what the index knows about the spans of the list. */
static int learn_known(void *ctx, const struct span_row *s)
{
    struct answered_spans *l = ctx;
    struct answer_span *x = find_answered(l, &s->link);

    if (x && !x->known)
        learn(l, x, s);
    return 0;
}

static int learn_all(struct answer_request *c, struct answered_spans *l, struct err *e)
{
    struct span_filter f = {.tenant = c->tenant, .from = INT64_MAX, .to = INT64_MIN, .cancel = c->cancel};

    if (!l->n)
        return 0;
    for (uint32_t i = 0; i < l->n; i++) {
        f.from = MIN(f.from, wrap_sub(l->v[i].from, AROUND_SPAN));
        f.to = MAX(f.to, wrap_add(l->v[i].to, AROUND_SPAN));
    }
    return span_index_each(c->spans, &f, learn_known, l, e);
}

static void take_sum(struct answer_span *x, const struct store_span *s)
{
    x->value = s->value;
    x->samples = s->samples;
    x->from = s->from;
    x->to = s->to;
    if (!x->known)
        x->row.service = s->service;
}

/* A sample stands for a period, which may be longer than its span: one of 10 ms is one of five that a span of 2 ms takes on
 * average. A sum over many spans is right, that of one is at most its length times its threads: as many as it has samples,
 * of which only the time is known where equal ones were joined. */
static void limit_to_length(struct answer_span *s, double rate)
{
    double periods = rate > 0 ? floor((double) s->value / NS_PER_S * rate) : (double) s->samples;
    double most = (double) s->row.duration * fmax(periods, 1);

    if (s->known && s->row.duration > 0 && (double) s->value > most) {
        s->sampled = s->value;
        s->value = (int64_t) most;
    }
}

static int limit_all(struct answer_request *c, const struct query *q, struct answered_spans *l, struct err *e)
{
    struct str type = q->q.columns[0].selector->type;
    int64_t covered[2];
    int r;

    if (!l->n || (!str_is(type, "cpu") && !str_is(type, "wall") && !str_is(type, "offcpu")))
        return 0;
    r = query_coverage(c->store, q, covered, e);
    for (uint32_t i = 0; r == 0 && i < l->n; i++)
        limit_to_length(&l->v[i], c->notes.rate_min);
    return r;
}

static int heaviest_first(const void *a, const void *b)
{
    const struct answer_span *x = a, *y = b;

    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return memcmp(&x->row.link, &y->row.link, sizeof x->row.link);
}

/* --- links --- */

/* The link template with {trace_id} and {span_id} replaced. */
static struct str link_of(struct answer_request *c, const struct link *l)
{
    _cleanup_(buf_done) struct buf url = BUF_INIT;
    struct str rest = str_from(c->trace_link);

    while (rest.n) {
        if (str_starts(rest, STR("{trace_id}"))) {
            hex_encode(&url, l->trace_id, sizeof l->trace_id);
            rest = str_slice(rest, sizeof "{trace_id}" - 1, rest.n);
        } else if (str_starts(rest, STR("{span_id}"))) {
            hex_encode(&url, l->span_id, sizeof l->span_id);
            rest = str_slice(rest, sizeof "{span_id}" - 1, rest.n);
        } else {
            buf_putc(&url, rest.p[0]);
            rest = str_slice(rest, 1, rest.n);
        }
    }
    return arena_str(c->arena, buf_str(&url));
}

static void put_spans(struct answer_request *c, struct buf *out, const struct query_spans *sums,
                      const struct answered_spans *l, uint64_t count)
{
    for (uint32_t i = 0; c->trace_link && i < l->n; i++)
        l->v[i].link = link_of(c, &l->v[i].row.link);
    answer_put(c, out, &(struct answer_spans){sums->type, sums->unit, sums->total, sums->linked, count, l->v, l->n});
}

/* --- one span, all spans of a name --- */

int answer_run_span(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_table t;
    enum store_rows rows;
    enum query_sort sort;
    uint32_t limit;
    int r = query_rows_parse(answer_param(c, "by"), &rows, e);

    if (r == 0)
        r = query_sort_parse(answer_param(c, "sort"), &sort, e);
    if (r == 0)
        r = answer_param_limit(c, ROWS_DEFAULT, UINT32_MAX, &limit, e);
    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0 && !store_query_by_span(&q->q))
        r = err_set(e, -EINVAL, "span: trace_id or span_name is required");
    if (r == 0 && q->is_diff && !answer_param(c, "sort").n)
        sort = QUERY_SORT_SHARE;
    if (r == 0)
        r = query_top(c->store, q, &(struct query_order){rows, sort, limit}, &t, e);
    if (r < 0)
        return r;
    answer_put(c, out, &t);
    query_table_done(&t);
    return 0;
}

/* --- spans --- */

struct listing_spans {
    struct answered_spans *l;
    struct arena arena; /* has the strings of the list meanwhile */
    int64_t shortest;   /* of the list, once it has been full */
    uint32_t keep;      /* twice the limit; the shorter half is dropped when it is full */
};

static int longest_first(const void *a, const void *b)
{
    const struct answer_span *x = a, *y = b;

    if (x->row.duration != y->row.duration)
        return x->row.duration < y->row.duration ? 1 : -1;
    return memcmp(&x->row.link, &y->row.link, sizeof x->row.link);
}

/* Copies the strings of the list into an arena and frees the one that has had them: those of spans that were dropped
 * would fill the memory. */
static int keep_strings(struct listing_spans *x, struct answered_spans *l, struct arena *to)
{
    struct arena own;

    if (!to) {
        arena_init(&own, 0);
        to = &own;
    }
    for (uint32_t i = 0; i < l->n; i++)
        learn(&(struct answered_spans){.arena = to}, &l->v[i], &l->v[i].row);
    arena_done(&x->arena);
    if (to == &own)
        x->arena = own;
    return to->failed ? -ENOMEM : 0;
}

static int collect_long(void *ctx, const struct span_row *s)
{
    struct listing_spans *x = ctx;
    struct answered_spans *l = x->l;
    int r;

    if (s->duration < x->shortest)
        return 0;
    r = array_push(l->v, l->n, l->cap, UINT32_MAX, (struct answer_span){0});
    if (r < 0)
        return r;
    learn(&(struct answered_spans){.arena = &x->arena}, &l->v[l->n - 1], s);
    if (l->n < x->keep)
        return 0;
    qsort(l->v, l->n, sizeof *l->v, longest_first);
    l->n = x->keep / 2;
    x->shortest = l->v[l->n - 1].row.duration;
    return keep_strings(x, l, NULL);
}

/* The longest spans of the selection, with or without samples. */
static int list_longest(struct answer_request *c, struct query *q, uint32_t limit, struct answered_spans *l,
                        struct err *e)
{
    const struct store_column *col = &q->q.columns[0];
    struct span_filter f = {.tenant = c->tenant,
                            .from = col->from,
                            .to = col->to,
                            .service = answer_param(c, "service"),
                            .name = answer_param(c, "span_name"),
                            .of_trace = q->q.has_trace,
                            .errors = str_is(answer_param(c, "span_status"), "error"),
                            .cancel = c->cancel};
    struct listing_spans x = {.l = l, .keep = 2 * MAX(limit, 1u)};
    int r = answer_param_duration(c, "min_duration", &f.min_duration, e);

    memcpy(f.trace_id, q->q.trace_id, sizeof f.trace_id);
    if (r == 0)
        r = answer_param_duration(c, "max_duration", &f.max_duration, e);
    arena_init(&x.arena, 0);
    if (r == 0)
        r = span_index_each(c->spans, &f, collect_long, &x, e);
    if (r == 0 && l->n)
        qsort(l->v, l->n, sizeof *l->v, longest_first);
    l->n = MIN(l->n, limit);
    if (r == 0)
        r = keep_strings(&x, l, l->arena);
    else
        arena_done(&x.arena);
    if (r < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < l->n; i++) {
        l->v[i].from = l->v[i].row.start;
        l->v[i].to = wrap_add(l->v[i].row.start, l->v[i].row.duration);
        r = map_insert(&l->map, hash64(&l->v[i].row.link, sizeof(struct link)), i);
    }
    return r;
}

static int list_heaviest(const struct query_spans *sums, struct answered_spans *l)
{
    for (uint32_t i = 0; i < sums->n; i++) {
        struct answer_span *x = add_answered(l, &sums->v[i].link);

        if (!x)
            return -ENOMEM;
        take_sum(x, &sums->v[i]);
    }
    return 0;
}

int answer_run_spans(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(answered_done) struct answered_spans l = {.arena = c->arena};
    bool longest = str_is(answer_param(c, "sort"), "duration");
    struct query_spans sums;
    uint32_t limit;
    int r = answer_param_limit(c, ROWS_DEFAULT, ROWS_MAX, &limit, e);

    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0 && longest)
        r = list_longest(c, q, limit, &l, e);
    if (r == 0)
        r = query_spans(c->store, q, longest ? 0 : limit, &sums, e);
    if (r < 0)
        return r;
    if (longest)
        for (uint32_t i = 0; i < sums.n; i++) {
            struct answer_span *x = find_answered(&l, &sums.v[i].link);

            if (x)
                take_sum(x, &sums.v[i]);
        }
    else
        r = list_heaviest(&sums, &l);
    if (r == 0 && !longest)
        r = learn_all(c, &l, e);
    if (r == 0)
        r = limit_all(c, q, &l, e);
    if (r == 0 && !longest && l.n)
        qsort(l.v, l.n, sizeof *l.v, heaviest_first);
    if (r == 0)
        put_spans(c, out, &sums, &l, longest ? l.n : sums.n_all);
    query_spans_done(&sums);
    return r;
}

/* --- traces --- */

static int collect_trace(void *ctx, const struct span_row *s)
{
    struct answered_spans *l = ctx;
    struct answer_span *x;

    if (find_answered(l, &s->link))
        return 0;
    x = l->n < TRACE_MAX ? add_answered(l, &s->link) : NULL;
    if (!x)
        return l->n < TRACE_MAX ? -ENOMEM : -E2BIG;
    learn(l, x, s);
    x->from = s->start;
    x->to = wrap_add(s->start, s->duration);
    return 0;
}

static int earliest_first(const void *a, const void *b)
{
    const struct answer_span *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return memcmp(&x->row.link, &y->row.link, sizeof x->row.link);
}

/* Children of a span, by number + 1; those of 0 are the roots. */
struct span_kids {
    uint32_t *first, *next;
};

static int index_trace(struct answered_spans *l, struct span_kids *k)
{
    map_reset(&l->map);
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, earliest_first);
    k->first = arena_zalloc_array(l->arena, (size_t) l->n + 1, sizeof *k->first);
    k->next = arena_zalloc_array(l->arena, (size_t) l->n + 1, sizeof *k->next);
    if (!k->first || !k->next)
        return -ENOMEM;
    for (uint32_t i = 0; i < l->n; i++)
        if (map_insert(&l->map, hash64(&l->v[i].row.link, sizeof(struct link)), i) < 0)
            return -ENOMEM;
    for (uint32_t i = l->n; i-- > 0;) {
        struct link parent = l->v[i].row.link;
        struct answer_span *up;
        uint32_t to;

        memcpy(parent.span_id, l->v[i].row.parent, sizeof parent.span_id);
        up = l->v[i].known ? find_answered(l, &parent) : NULL;
        to = up && up != &l->v[i] ? (uint32_t) (up - l->v) + 1 : 0;
        k->next[i + 1] = k->first[to];
        k->first[to] = i + 1;
    }
    return 0;
}

/* Puts the spans of a trace into the order of the tree. Those whose parents form a circle come last. */
static int order_trace(struct answered_spans *l)
{
    struct answer_span *out = mem_zalloc_array((size_t) l->n + 1, sizeof *out);
    uint32_t *stack = arena_zalloc_array(l->arena, (size_t) l->n + 1, sizeof *stack), depth = 0, n = 0;
    bool *seen = arena_zalloc_array(l->arena, (size_t) l->n + 1, sizeof *seen);
    struct span_kids k;
    int r = out && stack && seen ? index_trace(l, &k) : -ENOMEM;

    for (uint32_t at = r == 0 ? k.first[0] : 0; at;) {
        out[n] = l->v[at - 1];
        out[n].in_trace = true;
        out[n++].depth = depth;
        seen[at] = true;
        stack[depth++] = at;
        for (at = k.first[at]; !at && depth;)
            at = k.next[stack[--depth]];
    }
    for (uint32_t i = 0; r == 0 && i < l->n; i++)
        if (!seen[i + 1]) {
            l->v[i].in_trace = true;
            out[n++] = l->v[i];
        }
    if (r == 0) {
        mem_free(l->v);
        l->v = TAKE(out);
        l->cap = (size_t) l->n + 1;
    }
    mem_free(out);
    return r;
}

/* Spans that are known only from samples are in the list, too. */
static int add_sums(const struct query_spans *sums, struct answered_spans *l)
{
    for (uint32_t i = 0; i < sums->n; i++) {
        struct answer_span *x = find_answered(l, &sums->v[i].link);

        if (!x)
            x = add_answered(l, &sums->v[i].link);
        if (!x)
            return -ENOMEM;
        x->value = sums->v[i].value;
        x->samples = sums->v[i].samples;
        if (!x->known)
            take_sum(x, &sums->v[i]);
    }
    return 0;
}

int answer_run_trace(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(answered_done) struct answered_spans l = {.arena = c->arena};
    struct span_filter f = {
        .tenant = c->tenant, .from = CLOCK_MIN, .to = CLOCK_MAX, .of_trace = true, .cancel = c->cancel};
    struct query_spans sums;
    int r = answer_compile(c, &q, e);

    if (r == 0 && !q->q.has_trace)
        r = err_set(e, -EINVAL, "trace: trace_id is required");
    if (r < 0)
        return r;
    memcpy(f.trace_id, q->q.trace_id, sizeof f.trace_id);
    r = span_index_each(c->spans, &f, collect_trace, &l, e);
    if (r == -E2BIG)
        r = err_set(e, r, "the trace has more than %d spans", TRACE_MAX);
    if (r == 0)
        r = query_spans(c->store, q, 0, &sums, e);
    if (r < 0)
        return r;
    r = add_sums(&sums, &l);
    if (r == 0)
        r = order_trace(&l);
    if (r == 0)
        r = limit_all(c, q, &l, e);
    if (r == 0)
        put_spans(c, out, &sums, &l, l.n);
    query_spans_done(&sums);
    return r;
}

/* --- latency --- */

/* The filter of the questions that only the index answers. */
static int read_filter(struct answer_request *c, struct span_filter *f, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_params p;
    int r = answer_params_of(c, &p, e);

    if (r == 0)
        r = query_compile(&p, &q, e);

    if (r < 0)
        return r;
    *f = (struct span_filter){.tenant = c->tenant,
                              .from = q->q.columns[0].from,
                              .to = q->q.columns[0].to,
                              .service = answer_param(c, "service"),
                              .name = answer_param(c, "span_name"),
                              .errors = str_is(answer_param(c, "span_status"), "error"),
                              .cancel = c->cancel};
    for (uint32_t i = 0; !f->service.n && i < q->selectors[0].n; i++)
        if (q->selectors[0].v[i].op == MATCH_EQ && label_name_eq(q->selectors[0].v[i].name, STR(SEMCONV_SERVICE_NAME)))
            f->service = arena_str(c->arena, q->selectors[0].v[i].value);
    r = answer_param_duration(c, "min_duration", &f->min_duration, e);
    return r < 0 ? r : answer_param_duration(c, "max_duration", &f->max_duration, e);
}

int answer_run_span_names(struct answer_request *c, struct buf *out, struct err *e)
{
    struct span_filter f;
    struct span_names l;
    uint32_t limit;
    int r = answer_param_limit(c, ROWS_DEFAULT, ROWS_MAX, &limit, e);

    if (r == 0)
        r = read_filter(c, &f, e);
    if (r == 0)
        r = span_names_list(c->spans, &f, &l, e);
    if (r < 0)
        return r;
    answer_put(c, out, &(struct answer_span_names){l.n, l.v, MIN(l.n, limit)});
    span_names_done(&l);
    return 0;
}

static int put_heatmap(struct answer_request *c, struct buf *out, struct span_heatmap *h)
{
    uint32_t steps = h->n_rows ? h->n_slots : 0;
    size_t cells = (size_t) steps * h->n_rows;
    struct answer_span_heatmap x = {h->from,
                                    h->step,
                                    h->count,
                                    h->errors,
                                    h->bounds,
                                    h->n_rows ? h->n_rows + 1 : 0,
                                    arena_zalloc_array(&h->arena, steps + 1u, sizeof *x.counts),
                                    steps};
    int64_t *counts = arena_zalloc_array(&h->arena, cells + 1, sizeof *counts);

    if (!x.counts || !counts)
        return -ENOMEM;
    for (size_t i = 0; i < cells; i++)
        counts[i] = h->counts[i];
    for (uint32_t i = 0; i < steps; i++)
        x.counts[i] = (struct record_list){counts + (size_t) i * h->n_rows, h->n_rows};
    answer_put(c, out, &x);
    return 0;
}

int answer_run_span_heatmap(struct answer_request *c, struct buf *out, struct err *e)
{
    struct span_heatmap h = {0};
    struct span_filter f;
    uint64_t rows = HEAT_ROWS_DEFAULT;
    int r = answer_param_u64(c, "rows", &rows, e);

    if (r == 0)
        r = answer_param_duration(c, "step", &h.step, e);
    if (r == 0)
        r = read_filter(c, &f, e);
    if (r < 0)
        return r;
    if (!rows || rows > SPAN_ROWS_MAX)
        return err_set(e, -EINVAL, "rows: %llu is not between 1 and %d", (unsigned long long) rows, SPAN_ROWS_MAX);
    h.from = f.from;
    h.n_rows = (uint32_t) rows;
    if (h.step <= 0)
        h.step = MAX((f.to - f.from) / SLOTS_DEFAULT, 1);
    if ((f.to - f.from - 1) / h.step >= SPAN_SLOTS_MAX)
        return err_set(e, -EINVAL, "step: too many steps; the maximum is %d", SPAN_SLOTS_MAX);
    r = span_heatmap_fill(c->spans, &f, &h, e);
    if (r < 0)
        return r;
    r = put_heatmap(c, out, &h);
    span_heatmap_done(&h);
    return r;
}
