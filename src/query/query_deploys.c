/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists versions of services with the times of their profiles (query_deploys.h), and finds the interval of the profiles
 * of a selection (query_interval() of query.h).
 *
 * Both list the profiles of a range without reading their stacks.
 */
#include "query/query_deploys.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/semconv.h"
#include "query/program_of.h"
#include "query/verdict.h"

enum { STARTS_MAX = 1 << 24, PAIRS_MAX = 1 << 16, PAIRS_CACHED = 256, IDS_MAX = 4, TOOL_PROCESSES = 2 };
static const int64_t RUN_GAP_NS = 3 * 60 * NS_PER_S;     /* a version without profiles for this long has stopped */
static const int64_t DURATION_MAX_NS = 86400 * NS_PER_S; /* longest duration of a profile; longer ones count as this */
static const int64_t LIVED_NS = 120 * NS_PER_S, OVERLAP_NS = 180 * NS_PER_S; /* of versions that are build IDs */
static const int64_t TOOL_STEP_NS = 15 * NS_PER_S,
                     TOOL_NS = 60 * NS_PER_S; /* no process of a tool is seen for longer */
static const int64_t PROGRAM_RANGE_NS = 600 * NS_PER_S;
static const int64_t INTERVAL_RANGE_NS = 30 * 60 * NS_PER_S;

struct profile_start {
    int64_t time, duration;
    uint32_t pair; /* index of a service and version, or of a series */
};

struct profile_starts {
    struct profile_start *v;
    size_t n, cap;
    struct query_deploys *out; /* NULL: only series are distinguished */
    size_t cap_pairs;
    const struct labels *cached[PAIRS_CACHED]; /* the labels of a series have one address during a listing */
    uint32_t pair_of[PAIRS_CACHED];
};

/* --- collecting --- */

static int find_pair(struct profile_starts *x, const struct labels *l, uint32_t *ret)
{
    struct str service = labels_get(l, STR(SEMCONV_SERVICE_NAME)),
               version = labels_get(l, STR(SEMCONV_SERVICE_VERSION));
    struct query_deploy d = {0};
    int r;

    for (uint32_t i = 0; i < x->out->n; i++)
        if (str_eq(x->out->v[i].service, service) && str_eq(x->out->v[i].version, version)) {
            *ret = i;
            return 0;
        }
    d.service = arena_str(&x->out->arena, service);
    d.version = arena_str(&x->out->arena, version);
    if ((service.n && !d.service.p) || (version.n && !d.version.p))
        return -ENOMEM;
    r = array_push(x->out->v, x->out->n, x->cap_pairs, PAIRS_MAX, d);
    *ret = x->out->n - 1;
    return r;
}

static int pair_of(struct profile_starts *x, const struct labels *l, uint32_t *ret)
{
    size_t at = (uintptr_t) l / sizeof *l % PAIRS_CACHED;
    int r = 0;

    if (!x->out) {
        *ret = (uint32_t) ((uintptr_t) l / sizeof *l); /* which series does not matter, only that it is another one */
        return 0;
    }
    if (x->cached[at] != l) {
        r = find_pair(x, l, &x->pair_of[at]);
        x->cached[at] = r < 0 ? NULL : l;
    }
    *ret = x->pair_of[at];
    return r;
}

static int add_start(void *ctx, const struct store_profile *p)
{
    struct profile_starts *x = ctx;
    struct profile_start s = {.time = p->time_ns, .duration = MIN(MAX(p->duration_ns, 0), DURATION_MAX_NS)};
    const struct profile_start *last;
    int r = pair_of(x, p->labels, &s.pair);

    if (r < 0)
        return r;
    if (x->out)
        x->out->v[s.pair].profiles++;
    last = x->n ? &x->v[x->n - 1] : NULL;
    if (last && last->time == s.time && last->pair == s.pair) /* the processes of one batch */
        return 0;
    return array_push(x->v, x->n, x->cap, STARTS_MAX, s);
}

static int collect(struct store *s, const struct query *q, int64_t from, struct profile_starts *x, struct err *e)
{
    struct store_query sq = q->q;

    sq.columns[0] = q->q.columns[q->is_diff];
    sq.columns[0].from = MAX(sq.columns[0].from, from);
    sq.n_columns = 1;
    sq.times_only = true;
    sq.has_trace = sq.has_span = sq.has_profile = false;
    sq.focus = sq.ignore = sq.hide = (struct str){0};
    sq.notes = x->out ? q->q.notes : NULL;
    return s->ops->profiles(s, &sq, add_start, x, e);
}

/* --- runs --- */

static int by_time(const void *a, const void *b)
{
    const struct profile_start *x = a, *y = b;

    return (x->time > y->time) - (x->time < y->time);
}

/* Whether another version of the service had a profile in (from, to). */
static bool another_ran(const struct profile_starts *x, size_t at, int64_t from)
{
    const struct query_deploy *d = &x->out->v[x->v[at].pair];

    for (size_t i = at; i-- > 0 && x->v[i].time > from;)
        if (x->v[i].pair != x->v[at].pair && str_eq(x->out->v[x->v[i].pair].service, d->service))
            return true;
    return false;
}

static void follow_runs(struct profile_starts *x)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct profile_start *s = &x->v[i];
        struct query_deploy *d = &x->out->v[s->pair];

        if (!d->first) {
            d->first = d->since = s->time;
            d->deployed = another_ran(x, i, INT64_MIN);
        } else if (s->time - d->last > RUN_GAP_NS + s->duration && another_ran(x, i, d->last)) {
            d->since = s->time;
            d->deployed = true;
        }
        d->last = s->time;
    }
}

static int by_service(const void *a, const void *b)
{
    const struct query_deploy *x = a, *y = b;
    int r = str_cmp(x->service, y->service);

    return r ? r : (x->since > y->since) - (x->since < y->since);
}

/* Of the versions of a service that run at its end, the one that began last. v is sorted by service and since. */
static void mark_latest(struct query_deploys *d)
{
    for (uint32_t i = 0, end; i < d->n; i = end) {
        int64_t last = INT64_MIN;

        for (end = i; end < d->n && str_eq(d->v[end].service, d->v[i].service); end++)
            last = MAX(last, d->v[end].last);
        for (uint32_t k = end; k-- > i;)
            if (d->v[k].last >= last - RUN_GAP_NS) {
                d->v[k].latest = true;
                break;
            }
    }
}

/* --- which of them are deploys --- */

struct deploy_look {
    struct store *store;
    const struct query_params *like;
    struct str type;
    struct query_deploys *all;
};

/* Whether a version that is a build ID is one of a program that keeps running: it lived for two minutes, the versions before it
 * have ended, there are few of them, and no process was too short to be identified. */
static bool keeps_running(const struct query_deploys *all, const struct query_deploy *d)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < all->n; i++) {
        const struct query_deploy *o = &all->v[i];

        if (!str_eq(o->service, d->service))
            continue;
        n++;
        if (!o->version.n || (o != d && o->first < d->since && o->last > d->since + OVERLAP_NS))
            return false;
    }
    return n <= IDS_MAX && d->last - d->first >= LIVED_NS;
}

/* Selects the beginning of a version's last run, or the end of the version. */
static int select_run(const struct deploy_look *x, const struct query_deploy *d, bool end, struct query_params *ret)
{
    int64_t to = d->last + NS_PER_S, from = end ? MAX(d->first, to - PROGRAM_RANGE_NS) : d->since;
    char *selector = verdict_selector(&x->all->arena, x->type, d->service, d->version);

    if (!selector)
        return -ENOMEM;
    *ret = (struct query_params){.tenant = x->like->tenant,
                                 .now = x->like->now,
                                 .memory_limit = x->like->memory_limit,
                                 .cancel = x->like->cancel,
                                 .query = str_from(selector),
                                 .from = query_at(from),
                                 .to = query_at(MIN(to, from + PROGRAM_RANGE_NS))};
    return 0;
}

static int read_program(const struct deploy_look *x, const struct query_deploy *d, bool end, struct program *ret,
                        struct err *e)
{
    struct query_params p;
    int r = select_run(x, d, end, &p);

    return r < 0 ? r : program_read(x->store, &p, d->version, &x->all->arena, ret, e);
}

/* Whether what runs is a tool that is run again and again: several processes that came and went. */
static int is_tool(const struct deploy_look *x, const struct query_deploy *d, bool *ret, struct err *e)
{
    struct program_processes seen;
    struct query_params p;
    int r = select_run(x, d, false, &p);

    if (r == 0)
        r = program_processes_read(x->store, &p, TOOL_STEP_NS, &seen, e);
    if (r == 0)
        *ret = seen.n > TOOL_PROCESSES && seen.longest <= TOOL_NS;
    return r;
}

/* The version that ran last before this run; the next one before `after`, if that is not NULL. */
static const struct query_deploy *version_before(const struct query_deploys *all, const struct query_deploy *d,
                                                 const struct query_deploy *after)
{
    const struct query_deploy *best = NULL;

    for (uint32_t i = 0; i < all->n; i++) {
        const struct query_deploy *o = &all->v[i];

        if (o != d && o != after && o->version.n && o->first < d->since && str_eq(o->service, d->service) &&
            (!after || o->last < after->last) && (!best || o->last > best->last))
            best = o;
    }
    return best;
}

/* Sets d->previous, and takes back d->deployed where nothing was deployed. */
static int find_previous(const struct deploy_look *x, struct query_deploy *d, struct err *e)
{
    bool chosen = !program_is_build_id(d->version);
    const struct query_deploy *old = version_before(x->all, d, NULL);
    struct program now = {0}, before = {0};
    bool tool = false;
    int r = 0;

    d->deployed = d->version.n && old && (chosen || keeps_running(x->all, d));
    if (d->deployed)
        r = is_tool(x, d, &tool, e);
    if (r < 0)
        return r;
    d->deployed &= !tool;
    if (!d->deployed || (chosen && !program_is_build_id(old->version))) {
        d->previous = d->deployed ? old->version : (struct str){0};
        return 0;
    }
    r = read_program(x, d, false, &now, e);
    d->deployed = false;
    for (; r == 0 && old && !now.is_interpreters_id; old = version_before(x->all, d, old)) {
        r = read_program(x, old, true, &before, e);
        if (r == 0 && !before.is_interpreters_id && program_is_same(&now, &before)) {
            d->previous = old->version;
            d->deployed = true;
            break;
        }
    }
    return r;
}

static int find_all_previous(const struct deploy_look *x, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < x->all->n; i++)
        if (x->all->v[i].deployed)
            r = find_previous(x, &x->all->v[i], e);
    return r;
}

int query_deploys(struct store *s, const struct query *q, const struct query_params *like, struct query_deploys *ret,
                  struct err *e)
{
    struct profile_starts *x = mem_zalloc(sizeof *x);
    int r;

    *ret = (struct query_deploys){0};
    arena_init(&ret->arena, q->q.memory_limit);
    if (!x)
        return -ENOMEM;
    x->out = ret;
    r = collect(s, q, INT64_MIN, x, e);
    if (r == 0 && x->n) {
        qsort(x->v, x->n, sizeof *x->v, by_time);
        follow_runs(x);
        qsort(ret->v, ret->n, sizeof *ret->v, by_service);
        mark_latest(ret);
        r = find_all_previous(&(struct deploy_look){s, like, q->selectors[q->is_diff].type, ret}, e);
    }
    mem_free(x->v);
    mem_free(x);
    if (r < 0)
        query_deploys_done(ret);
    return r;
}

void query_deploys_done(struct query_deploys *d)
{
    mem_free(d->v);
    arena_done(&d->arena);
    *d = (struct query_deploys){0};
}

/* --- the interval --- */

static int by_pair(const void *a, const void *b)
{
    const struct profile_start *x = a, *y = b;

    return x->pair != y->pair ? (x->pair > y->pair) - (x->pair < y->pair) : by_time(a, b);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return (x > y) - (x < y);
}

/* Three quarters of the profiles follow the one before them after at most this time. */
static int usual_interval(struct profile_starts *x, int64_t *ret)
{
    int64_t *gaps = mem_zalloc_array(x->n + 1, sizeof *gaps);
    size_t n = 0;

    if (!gaps)
        return -ENOMEM;
    qsort(x->v, x->n, sizeof *x->v, by_pair);
    for (size_t i = 1; i < x->n; i++)
        if (x->v[i].pair == x->v[i - 1].pair && x->v[i].time > x->v[i - 1].time)
            gaps[n++] = x->v[i].time - x->v[i - 1].time;
    qsort(gaps, n, sizeof *gaps, by_value);
    *ret = n ? gaps[n * 3 / 4] : x->v[0].duration;
    mem_free(gaps);
    return 0;
}

int query_interval(struct store *s, const struct query *q, int64_t *ret, struct err *e)
{
    const struct store_column *c = &q->q.columns[q->is_diff];
    struct profile_starts *x = mem_zalloc(sizeof *x);
    int r;

    *ret = 0;
    if (!x)
        return -ENOMEM;
    r = collect(s, q, c->to - INTERVAL_RANGE_NS, x, e);
    if (r == 0 && x->n)
        r = usual_interval(x, ret);
    mem_free(x->v);
    mem_free(x);
    return r;
}
