/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles parameters into a query (see query.h), and implements the questions that go to the store unchanged. */
#include "query/query.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "model/semconv.h"
#include "query/query_heat.h"
#include "query/query_names.h"
#include "store/match.h"

#define RANGE_DEFAULT (3600 * NS_PER_S)

static int bad(struct err *e, int r, const char *name)
{
    return err_prefix(e, r, "%s: ", name);
}

/* The store gets the text. It is compiled here as well, so that an error message can name the parameter. */
static int get_regex(struct query *q, struct str s, const char *name, struct str *ret, struct err *e)
{
    struct regex *re;
    int r;

    if (!s.n)
        return 0;
    r = regex_new(s, &re, e);
    if (r < 0)
        return bad(e, r, name);
    regex_free(re);
    *ret = arena_str(&q->arena, s);
    return ret->p ? 0 : -ENOMEM;
}

/* Uploaded files are not services: what does not name one leaves them out. */
static int leave_out_uploads(struct query *q, struct selector *s)
{
    static const char *const naming[] = {SEMCONV_SERVICE_NAME, SEMCONV_SERVICE_NAMESPACE, SEMCONV_SERVICE_INSTANCE_ID,
                                         NULL};
    struct matcher *v;

    for (uint32_t i = 0; i < s->n; i++)
        if (match_is_label(naming, s->v[i].name))
            return 0;
    v = arena_zalloc_array(&q->arena, (size_t) s->n + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    if (s->n)
        memcpy(v, s->v, s->n * sizeof *v);
    v[s->n++] =
        (struct matcher){.name = STR(SEMCONV_SERVICE_NAMESPACE), .value = STR(SEMCONV_WICK_UPLOADS), .op = MATCH_NE};
    s->v = v;
    return 0;
}

/* A column as it was asked for. */
struct column_params {
    const char *name; /* of the parameter with the selector */
    struct str selector;
    int64_t from, to;
};

static int get_column(struct query *q, int i, const struct column_params *p, struct err *e)
{
    int r = p->selector.n ? selector_parse(p->selector, &q->arena, &q->selectors[i], e) : 0;
    struct type type;

    if (r < 0)
        return bad(e, r, p->name);
    r = q->with_uploads ? 0 : leave_out_uploads(q, &q->selectors[i]);
    if (r < 0)
        return r;
    if (!q->selectors[i].type.n) {
        q->selectors[i].type = q->type;
        q->any_type = true;
    }
    if (p->from >= p->to)
        return err_set(e, -EINVAL, "%s: the time range is empty: 'from' must be before 'to'", p->name);
    q->q.columns[i] = (struct store_column){.selector = &q->selectors[i], .from = p->from, .to = p->to};
    if (q->by_sample && !(type_by_name(q->selectors[i].type, &type) && type.rule == TYPE_GAUGE)) {
        q->q.columns[i].from = wrap_sub(p->from, QUERY_TAKEN_BEFORE);
        q->q.columns[i].taken_from = p->from;
        q->q.columns[i].taken_to = p->to;
    }
    return 0;
}

static int64_t time_of(struct query_time t, int64_t fallback)
{
    return t.given ? t.ns : fallback;
}

static int compile_columns(const struct query_params *p, struct query *q, struct err *e)
{
    bool diff = p->base_query.n || p->base_from.given || p->base_to.given;
    int64_t to = time_of(p->to, p->now), from = time_of(p->from, to - RANGE_DEFAULT), base_from, base_to;
    int r = get_column(q, diff, &(struct column_params){"query", p->query, from, to}, e);

    if (r < 0 || !diff) {
        q->q.n_columns = 1;
        return r;
    }
    base_from = time_of(p->base_from, from);
    base_to = time_of(p->base_to, p->base_from.given ? MIN(wrap_add(base_from, to - from), CLOCK_MAX) : to);
    r = get_column(
        q, 0, &(struct column_params){"base_query", p->base_query.n ? p->base_query : p->query, base_from, base_to}, e);
    q->q.n_columns = 2;
    q->is_diff = true;
    return r;
}

static int compile_ids(const struct query_params *p, struct query *q, struct err *e)
{
    if (p->has_span && !p->has_trace && !p->any_trace)
        return err_set(e, -EINVAL, "span_id requires trace_id");
    q->q.has_trace = p->has_trace;
    q->q.has_span = p->has_span;
    q->q.has_profile = p->has_profile;
    memcpy(q->q.trace_id, p->trace_id, sizeof q->q.trace_id);
    memcpy(q->q.span_id, p->span_id, sizeof q->q.span_id);
    q->q.profile = p->profile;
    return 0;
}

/* Names are joined by ';'. A ';' or backslash inside a name is escaped with a backslash. */
static int compile_zoom(struct str path, struct query *q)
{
    struct str *names;
    uint32_t n = 0;
    char *text;

    if (!path.n)
        return 0;
    names = arena_zalloc_array(&q->arena, (size_t) path.n + 1, sizeof *names);
    text = arena_alloc(&q->arena, path.n);
    if (!names || !text)
        return -ENOMEM;
    names[n++] = (struct str){text, 0};
    for (uint32_t i = 0; i < path.n; i++) {
        if (path.p[i] == ';') {
            names[n++] = (struct str){text, 0};
            continue;
        }
        if (path.p[i] == '\\' && i + 1 < path.n)
            i++;
        *text++ = path.p[i];
        names[n - 1].n++;
    }
    q->q.zoom = names;
    q->q.n_zoom = n;
    return 0;
}

static int compile_shape(const struct query_params *p, struct query *q, struct err *e)
{
    int r = get_regex(q, p->focus, "focus", &q->q.focus, e);

    if (r == 0)
        r = get_regex(q, p->ignore, "ignore", &q->q.ignore, e);
    if (r == 0)
        r = get_regex(q, p->hide, "hide", &q->q.hide, e);
    if (r < 0)
        return r;
    q->q.by = p->by;
    q->q.max_nodes = p->max_nodes;
    q->q.min_share = p->min_share;
    q->q.no_inlines = p->no_inlines;
    return compile_zoom(p->zoom, q);
}

int query_compile(const struct query_params *p, struct query **ret, struct err *e)
{
    _cleanup_(query_freep) struct query *q = mem_zalloc(sizeof *q);
    int r;

    if (!q)
        return -ENOMEM;
    arena_init(&q->arena, 16 << 20);
    q->q.tenant = arena_cstr(&q->arena, str_from(p->tenant));
    q->q.memory_limit = p->memory_limit;
    q->q.cancel = p->cancel;
    q->q.notes = p->notes;
    q->names = p->names;
    q->type = p->type.n ? p->type : STR("cpu");
    if (!q->q.tenant)
        return -ENOMEM;
    q->by_sample = p->by_sample;
    q->with_uploads = p->with_uploads;
    r = compile_columns(p, q, e);
    q->any_type &= !p->type.n;
    if (r == 0)
        r = compile_ids(p, q, e);
    if (r == 0)
        r = compile_shape(p, q, e);
    if (r < 0)
        return r;
    *ret = TAKE(q);
    return 0;
}

void query_free(struct query *q)
{
    if (!q)
        return;
    for (int i = 0; i < 2; i++) {
        selector_done(&q->selectors[i]);
        store_span_set_done(&q->span_sets[i]);
        mem_free(q->links[i]);
    }
    arena_done(&q->arena);
    mem_free(q);
}

int query_flame(struct store *s, struct query *q, struct tree **ret, struct err *e)
{
    return named_select(&(struct named_store){s, q->names}, &q->q, ret, e);
}

int query_callers(struct store *s, struct query *q, struct str function, struct store_callers *ret, struct err *e)
{
    struct store_query sq = q->q;

    if (!function.n)
        return err_set(e, -EINVAL, "function is required");
    sq.min_share = 0;
    sq.by = BY_FUNCTION;
    return named_callers(&(struct named_store){s, q->names}, &sq, function, ret, e);
}

/* --- series --- */

static int split_names(struct str list, struct arena *a, const struct str **ret, uint32_t *ret_n)
{
    struct str *names;
    uint32_t n = 1, k = 0;

    for (uint32_t i = 0; i < list.n; i++)
        n += list.p[i] == ',';
    names = arena_zalloc_array(a, n, sizeof *names);
    if (!names)
        return -ENOMEM;
    while (list.n) {
        struct str name = str_trim(str_cut(&list, ','));

        if (name.n)
            names[k++] = label_canonical_name(name);
    }
    *ret = names;
    *ret_n = k;
    return 0;
}

/* An attribute that no sample of the selection has is an error, or the answer would be one series without a name. Labels
 * of series may be missing. */
static int check_groups(const struct store *s, const struct store_points *p, const struct store_series_query *sq,
                        bool coarse, struct err *e)
{
    for (uint32_t i = 0; i < sq->n_by; i++) {
        bool found = match_is_label(s->labels, sq->by[i]) || !p->n_series;

        for (uint32_t k = 0; !found && k < p->n_series; k++)
            found = p->labels[k].v[i].value.n;
        if (!found)
            return err_set(e, -EINVAL, "group_by: no profile of the selection has an attribute '%.*s'%s",
                           STR_FMT(sq->by[i]),
                           coarse ? "; attributes of a part of the range are no longer stored (retention.detail)"
                                  : "; 'labels' lists the attributes that exist");
    }
    return 0;
}

enum { INTERVALS_MANY = 20 }; /* of a step: one more or less is not seen */

/* A sixtieth of the range. A step shorter than the interval would have points without profiles between those with, and
 * one of a few and a half intervals would have a profile more in every other step, so it is a multiple of it. */
static int64_t usual_step(int64_t range, int64_t interval)
{
    int64_t step = MAX(MAX(range / 60, MIN(2 * interval, range / 4)), NS_PER_S);

    return interval > 0 && step / interval < INTERVALS_MANY ? (step + interval - 1) / interval * interval : step;
}

int query_series(struct store *s, struct query *q, const struct query_series_params *p, struct store_points *ret,
                 struct err *e)
{
    const struct store_column *c = &q->q.columns[q->is_diff];
    struct store_series_query sq = {.step = p->step, .function = p->function};
    int64_t range = c->to - c->from, interval = MIN(p->interval, range / 4);
    int r = split_names(p->by, &q->arena, &sq.by, &sq.n_by);

    if (r < 0)
        return r;
    if (sq.step <= 0)
        sq.step = usual_step(range, interval);
    if (range / sq.step > 20000)
        return err_set(e, -EINVAL, "step: too many points (%lld); the maximum is 20000", (long long) (range / sq.step));
    if (sq.n_by > STORE_BY_MAX)
        return err_set(e, -EINVAL, "group_by: %u labels; the maximum is %d", sq.n_by, STORE_BY_MAX);
    r = s->ops->series(s, &q->q, &sq, ret, e);
    if (r == 0) {
        r = check_groups(s, ret, &sq, q->q.notes && q->q.notes->coarse, e);
        if (r < 0)
            store_points_done(ret);
    }
    return r;
}
