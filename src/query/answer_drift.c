/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the questions drift and verdict: reads the parameters, asks drift.h and verdict.h, and prints JSON. */
#include "query/answer_drift.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "query/query_json.h"
#include "query/verdict.h"

static struct str param(struct answer_request *c, const char *name)
{
    return c->param(c->ctx, name);
}

static int read_ask(struct answer_request *c, struct drift_ask *ret, struct err *e)
{
    struct str points = param(c, "min_points"), limit = param(c, "limit"), share = param(c, "share");
    uint64_t n = 0;

    *ret = (struct drift_ask){0};
    if (points.n && (str_to_double(points, &ret->min_points) < 0 || !(ret->min_points > 0 && ret->min_points <= 100)))
        return err_set(e, -EINVAL, "min_points: '%.*s' is not a number above 0 and up to 100", STR_FMT(points));
    if (limit.n && str_to_u64(limit, 10, &n) < 0)
        return err_set(e, -EINVAL, "limit: '%.*s' is not a number", STR_FMT(limit));
    if (share.n && !str_is(share, "total") && !str_is(share, "self"))
        return err_set(e, -EINVAL, "share: '%.*s' is not total or self", STR_FMT(share));
    ret->limit = (uint32_t) MIN(n, (uint64_t) 10000);
    ret->self = str_is(share, "self");
    ret->spans = c->spans;
    return 0;
}

/* --- JSON --- */

static void put_row(struct buf *out, const struct drift_row *r)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "function", r->function);
    json_put_key_double(out, &first, "before", r->before);
    json_put_key_double(out, &first, "now", r->now);
    json_put_key_double(out, &first, "points", r->points);
    json_put_key_double(out, &first, "cores", r->cores);
    json_put_key_double(out, &first, "p", r->p);
    json_put_key_bool(out, &first, "significant", r->significant);
    json_put_key_double(out, &first, "low", r->low);
    json_put_key_double(out, &first, "high", r->high);
    if (r->label.n) {
        bool inner = true;

        json_put_key(out, &first, "label");
        buf_putc(out, '{');
        json_put_key_str(out, &inner, "name", r->label);
        json_put_key_str(out, &inner, "value", r->value);
        json_put_key_double(out, &inner, "explains", r->explains);
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
}

/* The fields of a drift, without the braces around them. */
static void put_drift(struct buf *out, bool *first, const struct drift_answer *d)
{
    json_put_key_str(out, first, "type", d->type);
    json_put_key_str(out, first, "unit", d->unit);
    json_put_key(out, first, "drift");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < d->n; i++) {
        if (i)
            buf_putc(out, ',');
        put_row(out, &d->rows[i]);
    }
    buf_putc(out, ']');
    json_put_key_u64(out, first, "count", d->n_all);
    json_put_key_double(out, first, "minimum_detectable_points", d->minimum_detectable_points);
    json_put_key_u64(out, first, "instances", d->instances);
    json_put_key_u64(out, first, "windows", d->windows);
    if (d->traffic_points > 0)
        json_put_key_double(out, first, "traffic_points", d->traffic_points);
    json_put_key(out, first, "coverage");
    buf_printf(out, "[%lld,%lld]", (long long) d->covered_ns[0], (long long) d->covered_ns[1]);
    json_put_key(out, first, "cores");
    buf_putc(out, '[');
    json_put_double(out, d->cores[0]);
    buf_putc(out, ',');
    json_put_double(out, d->cores[1]);
    buf_putc(out, ']');
}

/* --- drift --- */

/* baseline_from and baseline_to; the names that other questions use are accepted, too. */
static int base_param(struct answer_request *c, const char *name, const char *other, struct str *ret, struct err *e)
{
    int64_t t;
    int r;

    *ret = param(c, name);
    if (!ret->n) {
        *ret = param(c, other);
        return 0;
    }
    r = clock_parse(*ret, c->now, &t, e);
    return r < 0 ? err_prefix(e, r, "%s: ", name) : 0;
}

/* Without a baseline: as much time before `from`. */
static int default_baseline(struct answer_request *c, struct query_params *p, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    int64_t from, length;
    int r;

    if (p->base_query.n || p->base_from.n || p->base_to.n)
        return 0;
    r = query_compile(p, &q, e);
    if (r < 0)
        return r;
    from = q->q.columns[0].from;
    length = MIN(q->q.columns[0].to - from, from - CLOCK_MIN);
    p->base_to = str_from(arena_printf(c->arena, "%lld", (long long) from));
    p->base_from = str_from(arena_printf(c->arena, "%lld", (long long) (from - length)));
    return c->arena->failed ? -ENOMEM : 0;
}

int answer_run_drift(struct answer_request *c, struct buf *out, struct err *e)
{
    struct query_params p = {.tenant = c->tenant,
                             .query = param(c, "query"),
                             .from = param(c, "from"),
                             .to = param(c, "to"),
                             .base_query = param(c, "base_query"),
                             .names = c->names,
                             .now = c->now,
                             .memory_limit = c->memory_limit,
                             .cancel = c->cancel};
    _cleanup_(query_freep) struct query *q = NULL;
    struct drift_answer d;
    struct drift_ask ask;
    bool first = true;
    int r = read_ask(c, &ask, e);

    if (r == 0)
        r = base_param(c, "baseline_from", "base_from", &p.base_from, e);
    if (r == 0)
        r = base_param(c, "baseline_to", "base_to", &p.base_to, e);
    if (r == 0)
        r = default_baseline(c, &p, e);
    if (r == 0)
        r = query_compile(&p, &q, e);
    if (r == 0)
        r = query_drift(c->store, q, &ask, &d, &c->notes, e);
    if (r == -ENODATA) /* nothing to compare: an answer without rows, as for other questions */
        d.minimum_detectable_points = 100;
    else if (r < 0)
        return r;
    buf_putc(out, '{');
    put_drift(out, &first, &d);
    if (d.empty)
        json_put_key_str(out, &first, "empty", str_from(d.empty));
    buf_putc(out, '}');
    drift_answer_done(&d);
    return 0;
}

/* --- verdict --- */

/* `wick query verdict NAME` passes the name as the selector: a selector with an exact service.name is understood, too. */
static int read_service(struct answer_request *c, struct verdict_ask *ask, struct err *e)
{
    struct str query = param(c, "query");
    struct selector s = {0};
    int r;

    ask->service = param(c, "service");
    if (ask->service.n || !query.n)
        return 0;
    if (str_find_char(query, '{') < 0) {
        ask->service = query;
        return 0;
    }
    r = selector_parse(query, c->arena, &s, e);
    if (r < 0)
        return err_prefix(e, r, "query: ");
    if (!ask->type.n)
        ask->type = s.type;
    for (uint32_t i = 0; i < s.n; i++)
        if (s.v[i].op == MATCH_EQ && label_name_eq(s.v[i].name, STR("service.name")))
            ask->service = s.v[i].value;
        else if (s.v[i].op == MATCH_EQ && label_name_eq(s.v[i].name, STR("service.version")) && !ask->version.n)
            ask->version = s.v[i].value;
    selector_done(&s);
    return 0;
}

static void put_verdict(struct buf *out, const struct verdict_answer *v)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "verdict", str_from(verdict_name(v->verdict)));
    json_put_key_str(out, &first, "service", v->service);
    json_put_key_str(out, &first, "version", v->version);
    json_put_key_str(out, &first, "previous", v->previous);
    json_put_key_ns(out, &first, "deployed", v->deployed_ns);
    json_put_key_bool(out, &first, "rollback", v->rollback);
    json_put_key_text(out, &first, "sentence", v->sentence);
    json_put_key_text(out, &first, "normalised", v->per_request ? "request" : "cpu-second");
    json_put_key_double(out, &first, "cost_change", v->cost_change);
    json_put_key_double(out, &first, "total_change", verdict_total_change(v));
    if (v->per_request) {
        json_put_key_double(out, &first, "cost_p", v->cost_p);
        json_put_key(out, &first, "requests");
        buf_printf(out, "[%llu,%llu]", (unsigned long long) v->requests[0], (unsigned long long) v->requests[1]);
    }
    if (v->to) {
        json_put_key_text(out, &first, "compared", v->overlap ? "overlap" : "before");
        json_put_key_ns(out, &first, "from", v->from);
        json_put_key_ns(out, &first, "to", v->to);
        json_put_key_ns(out, &first, "baseline_from", v->base_from);
        json_put_key_ns(out, &first, "baseline_to", v->base_to);
    }
    put_drift(out, &first, &v->drift);
    buf_putc(out, '}');
}

int answer_run_verdict(struct answer_request *c, struct buf *out, struct err *e)
{
    struct verdict_ask ask = {.tenant = c->tenant,
                              .spans = c->spans,
                              .version = param(c, "version"),
                              .type = param(c, "type"),
                              .from = param(c, "from"),
                              .to = param(c, "to"),
                              .names = c->names,
                              .now = c->now,
                              .memory_limit = c->memory_limit,
                              .cancel = c->cancel};
    struct verdict_answer v;
    struct drift_ask drift;
    int r = read_ask(c, &drift, e);

    ask.min_points = drift.min_points;
    ask.self = drift.self;
    ask.limit = drift.limit;
    if (r == 0)
        r = read_service(c, &ask, e);
    if (r == 0)
        r = query_verdict(c->store, &ask, &v, &c->notes, e);
    if (r == -ENODATA) {
        v = (struct verdict_answer){.service = ask.service};
        v.drift.minimum_detectable_points = 100;
        snprintf(v.sentence, sizeof v.sentence, "%.399s", e->message);
    } else if (r < 0) {
        return r;
    }
    put_verdict(out, &v);
    verdict_answer_done(&v);
    return 0;
}
