/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the questions drift, verdict and verdicts: reads the parameters, and asks drift.h and verdict.h. */
#include "query/answer_drift.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "query/answer_fields.h"
#include "query/answer_run.h"

static int read_ask(struct answer_request *c, struct drift_ask *ret, struct err *e)
{
    struct str points = answer_param(c, "min_points"), limit = answer_param(c, "limit"),
               share = answer_param(c, "share");
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

/* --- drift --- */

/* baseline_from and baseline_to; the names that other questions use are accepted, too. */
static int base_param(struct answer_request *c, const char *name, struct query_time *ret, struct err *e)
{
    struct str text = answer_param(c, name);
    int r = text.n ? clock_parse(text, c->now, &ret->ns, e) : 0;

    ret->given |= text.n != 0;
    return r < 0 ? err_prefix(e, r, "%s: ", name) : 0;
}

/* Without a baseline: as much time before `from`. */
static int default_baseline(struct query_params *p, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    int64_t from;
    int r;

    if (p->base_query.n || p->base_from.given || p->base_to.given)
        return 0;
    r = query_compile(p, &q, e);
    if (r < 0)
        return r;
    from = q->q.columns[0].from;
    p->base_to = query_at(from);
    p->base_from = query_at(from - MIN(q->q.columns[0].to - from, from - CLOCK_MIN));
    return 0;
}

int answer_run_drift(struct answer_request *c, struct buf *out, struct err *e)
{
    static const char *const names[] = {"query", "from", "to", "base_query", "base_from", "base_to", NULL};
    struct query_params p = answer_params_none(c);
    _cleanup_(query_freep) struct query *q = NULL;
    struct drift_answer d;
    struct drift_ask ask;
    int r = read_ask(c, &ask, e);

    if (r == 0)
        r = query_params_read(&p, names, c->param, c->ctx, e);
    if (r == 0)
        r = base_param(c, "baseline_from", &p.base_from, e);
    if (r == 0)
        r = base_param(c, "baseline_to", &p.base_to, e);
    if (r == 0)
        r = default_baseline(&p, e);
    if (r == 0)
        r = query_compile(&p, &q, e);
    if (r == 0)
        r = query_drift(c->store, q, &ask, &d, e);
    if (r == -ENODATA) /* nothing to compare: an answer without rows, as for other questions */
        d.minimum_detectable_points = 100;
    else if (r < 0)
        return r;
    d.n_columns = 2;
    answer_put(c, out, &d);
    drift_answer_done(&d);
    return 0;
}

/* --- verdict --- */

/* `wick query verdict NAME` passes the name as the selector: a selector with an exact service.name is understood, too. */
static int read_service(struct answer_request *c, struct verdict_ask *ask, struct err *e)
{
    struct str query = answer_param(c, "query");
    struct selector s = {0};
    int r;

    ask->service = answer_param(c, "service");
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

static int read_range(struct answer_request *c, struct verdict_ask *ask, struct err *e)
{
    static const char *const names[] = {"from", "to", NULL};
    struct query_params p = answer_params_none(c);
    int r = query_params_read(&p, names, c->param, c->ctx, e);

    ask->from = p.from;
    ask->to = p.to;
    return r;
}

int answer_run_verdict(struct answer_request *c, struct buf *out, struct err *e)
{
    struct verdict_ask ask = {.tenant = c->tenant,
                              .spans = c->spans,
                              .version = answer_param(c, "version"),
                              .type = answer_param(c, "type"),
                              .names = c->names,
                              .now = c->now,
                              .memory_limit = c->memory_limit,
                              .cancel = c->cancel,
                              .notes = &c->notes};
    struct verdict_answer v;
    struct drift_ask drift;
    int r = read_ask(c, &drift, e);

    ask.min_points = drift.min_points;
    ask.self = drift.self;
    ask.limit = drift.limit;
    if (r == 0)
        r = read_range(c, &ask, e);
    if (r == 0)
        r = read_service(c, &ask, e);
    if (r == 0)
        r = query_verdict(c->store, &ask, &v, e);
    if (r == -ENODATA) {
        v = (struct verdict_answer){.service = ask.service};
        v.drift.minimum_detectable_points = 100;
        snprintf(v.sentence, sizeof v.sentence, "%.399s", e->message);
    } else if (r < 0) {
        return r;
    }
    v.drift.n_columns = 2;
    answer_put(c, out, &v);
    verdict_answer_done(&v);
    return 0;
}

/* --- verdicts --- */

enum { JUDGED_MAX = 24, SHOWN_DEFAULT = 3 };

static int most_expensive_first(const void *a, const void *b)
{
    const struct verdict_answer *x = a, *y = b;
    double cx = fabs(x->cores_change), cy = fabs(y->cores_change);

    return (cx < cy) - (cx > cy);
}

static int latest_first(const void *a, const void *b)
{
    const struct query_deploy *x = *(const struct query_deploy *const *) a,
                              *y = *(const struct query_deploy *const *) b;

    return (x->since < y->since) - (x->since > y->since);
}

static int judge_one(struct answer_request *c, const struct drift_ask *drift, const struct query_deploy *d,
                     struct answer_verdicts *to, struct err *e)
{
    struct verdict_ask ask = {.tenant = c->tenant,
                              .service = d->service,
                              .version = d->version,
                              .min_points = drift->min_points,
                              .limit = 20,
                              .names = c->names,
                              .spans = c->spans,
                              .now = c->now,
                              .memory_limit = c->memory_limit,
                              .cancel = c->cancel,
                              .notes = &c->notes};
    struct verdict_answer v;
    int r = read_range(c, &ask, e);

    if (r == 0)
        r = query_verdict(c->store, &ask, &v, e);

    if (r == -ENODATA) {
        to->undecided++;
        return 0;
    }
    if (r < 0)
        return r;
    if (v.is_card) {
        v.drift.n_columns = 2;
        to->verdicts[to->count++] = v;
        return 0;
    }
    to->undecided += v.verdict == VERDICT_UNKNOWN;
    to->same += v.verdict == VERDICT_SAME;
    verdict_answer_done(&v);
    return 0;
}

static int judge_all(struct answer_request *c, const struct query_deploys *d, const struct drift_ask *drift,
                     struct answer_verdicts *to, struct err *e)
{
    const struct query_deploy **list = mem_zalloc_array(d->n + 1, sizeof(void *));
    uint32_t n = 0;
    int r = list ? 0 : -ENOMEM;

    for (uint32_t i = 0; list && i < d->n; i++)
        if (d->v[i].latest && d->v[i].deployed)
            list[n++] = &d->v[i];
    if (n)
        qsort(list, n, sizeof(void *), latest_first);
    for (uint32_t i = 0; r == 0 && i < MIN(n, (uint32_t) JUDGED_MAX); i++)
        r = judge_one(c, drift, list[i], to, e);
    mem_free(list);
    return r;
}

int answer_run_verdicts(struct answer_request *c, struct buf *out, struct err *e)
{
    struct query_params like = answer_params_none(c);
    _cleanup_(query_freep) struct query *q = NULL;
    struct answer_verdicts list = {.verdicts = mem_zalloc_array(JUDGED_MAX, sizeof *list.verdicts)};
    struct query_deploys d = {0};
    struct drift_ask drift;
    uint32_t limit = SHOWN_DEFAULT;
    int r = list.verdicts ? read_ask(c, &drift, e) : -ENOMEM;

    if (r == 0)
        r = answer_param_limit(c, SHOWN_DEFAULT, JUDGED_MAX, &limit, e);
    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0)
        r = query_deploys(c->store, q, &like, &d, e);
    if (r == 0)
        r = judge_all(c, &d, &drift, &list, e);
    query_deploys_done(&d);
    if (r == 0) {
        if (list.count)
            qsort(list.verdicts, list.count, sizeof *list.verdicts, most_expensive_first);
        list.n = MIN(list.count, limit);
        answer_put(c, out, &list);
    }
    for (uint32_t i = 0; i < list.count; i++)
        verdict_answer_done(&list.verdicts[i]);
    mem_free(list.verdicts);
    return r;
}
