/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of rates and of presence: spikes and lost data. See alert_eval.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert_eval.h"
#include "base/clock.h"
#include "base/mem.h"
#include "query/query.h"

enum { BASELINE_WINDOWS_MIN = 6, BASELINE_WINDOWS_MAX = 2000, LOST_PROFILES_MIN = 5 };
#define SPREADS 6                          /* a spike is this many spreads (1.48 MAD) above the median, at least */
#define PRESENCE_KEPT (10 * 60 * NS_PER_S) /* how long it is remembered that there was data in the baseline */

/* --- spikes --- */

/* Rates per covered second of the windows of length step in [from, to). Windows that are less than a quarter covered have
 * none. Returns their number; *ret must be freed. */
static int64_t read_rates(struct alert_look *l, int64_t from, int64_t to, int64_t step, double **ret, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(mem_freep) int64_t *covered = NULL;
    struct store_points p = {0};
    int64_t n = 0;
    int r = alert_compile(l, from, to, &q, e);

    if (r == 0)
        r = query_series(l->eval->store, q, &(struct query_series_params){.step = step}, &p, e);
    if (r < 0)
        return r;
    covered = mem_zalloc_array(p.n_points + 1u, sizeof *covered);
    *ret = mem_zalloc_array(p.n_points + 1u, sizeof **ret);
    r = covered && *ret ? query_step_coverage(l->eval->store, q, &p, covered, NULL, e) : -ENOMEM;
    for (uint32_t i = 0; r == 0 && p.n_series && i < p.n_points; i++)
        if (covered[i] >= step / 4)
            (*ret)[n++] = p.values[i] / ((double) covered[i] / 1e9);
    store_points_done(&p);
    return r < 0 ? r : n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(double *v, int64_t n)
{
    qsort(v, (size_t) n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* The usual rate and its spread, from the windows before the present one. */
static int read_usual(struct alert_look *l, struct alert_cached *c, struct err *e)
{
    _cleanup_(mem_freep) double *v = NULL;
    int64_t step = MAX(l->source->window, l->source->baseline / BASELINE_WINDOWS_MAX);
    int64_t n = read_rates(l, l->from - l->source->baseline / step * step, l->from, step, &v, e);

    if (n < 0)
        return (int) n;
    c->windows = (uint32_t) n;
    c->until = n < BASELINE_WINDOWS_MIN ? 0 : l->eval->now + step; /* too few: more may arrive at any time */
    if (!n)
        return 0;
    c->usual = median(v, n);
    for (int64_t i = 0; i < n; i++)
        v[i] = fabs(v[i] - c->usual);
    c->spread = 1.4826 * median(v, n);
    return 0;
}

static int add_spike(struct alert_look *l, uint32_t index, double now, const struct alert_cached *c)
{
    const struct alert_rule *r = &l->rules->v[l->source->rules[index]];
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct alert_finding f = {.service = l->service, .value = now / c->usual, .limit = r->factor, .unit = ALERT_RATIO};

    buf_printf(&b, "%s: ", l->selector);
    type_format(&b, &l->source->value, now, true);
    buf_printf(&b, ", %.1f times the usual ", f.value);
    type_format(&b, &l->source->value, c->usual, true);
    f.summary = arena_str(&l->out->arena, buf_str(&b));
    f.link = alert_link(l, l->selector, l->from - (l->to - l->from), l->from, (struct str){"", 0});
    return alert_add_finding(l, index, &f);
}

int alert_look_spike(struct alert_look *l, struct err *e)
{
    _cleanup_(mem_freep) double *now = NULL;
    struct alert_cached none = {0}, *c = alert_cache_at(l, "spike");
    int64_t n;
    int r = 0;

    if (!c)
        c = &none;
    if (c->until <= l->eval->now || c->until > l->eval->now + l->source->baseline)
        r = read_usual(l, c, e);
    if (r < 0)
        return r;
    n = read_rates(l, l->from, l->to, l->to - l->from, &now, e);
    if (n < 0)
        return (int) n;
    for (uint32_t i = 0; r == 0 && i < l->source->n_rules; i++) {
        const struct alert_rule *rule = &l->rules->v[l->source->rules[i]];

        if (c->windows < BASELINE_WINDOWS_MIN || c->usual <= 0)
            l->out->rules[i].unknown = !l->source->each; /* of one service among others, nothing is found */
        else if (n && now[0] > rule->factor * c->usual && now[0] > c->usual + SPREADS * c->spread)
            r = add_spike(l, i, now[0], c);
    }
    return r;
}

/* --- lost data --- */

static int first_profile(void *ctx, const struct store_profile *p)
{
    (void) p;
    *(bool *) ctx = true;
    return -ECANCELED; /* one is enough */
}

static int has_profiles(struct alert_look *l, int64_t from, int64_t to, bool *ret, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct store *s = l->eval->store;
    int r = alert_compile(l, from, to, &q, e);

    *ret = false;
    if (r == 0)
        r = s->ops->profiles(s, &q->q, first_profile, ret, e);
    return *ret ? 0 : r;
}

static int add_silence(struct alert_look *l, uint32_t index)
{
    const struct alert_rule *r = &l->rules->v[l->source->rules[index]];
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct alert_finding f = {.service = l->service,
                              .value = (double) r->window / 1e9,
                              .limit = (double) r->window / 1e9,
                              .unit = ALERT_SECONDS};

    buf_printf(&b, "No profile of %s for ", l->selector);
    alert_put_duration(&b, r->window);
    buf_puts(&b, ", although there were some before");
    f.summary = arena_str(&l->out->arena, buf_str(&b));
    f.link = alert_link(l, l->selector, l->from - (l->to - l->from), l->from, (struct str){"", 0});
    return alert_add_finding(l, index, &f);
}

/* Profiles that were refused, as a share of those that arrived since the last reading but one, which is at most two
 * windows ago. Returns a negative share when nothing can be said. */
static double read_losses(struct alert_look *l, struct alert_cached *c)
{
    struct alert_losses n = {0};
    bool is_new;
    double share = -1;

    if (!l->eval->losses || !c || !l->service.n)
        return -1;
    l->eval->losses(l->eval->losses_ctx, l->source->tenant, l->service, &n);
    is_new = !c->at || n.received < c->losses.received || n.refused < c->losses.refused;
    if (!is_new && n.received - c->losses.received >= LOST_PROFILES_MIN)
        share = (double) (n.refused - c->losses.refused) / (double) (n.received - c->losses.received);
    if (is_new || l->eval->now - c->at > l->source->window) {
        c->losses = n;
        c->at = l->eval->now;
    }
    return share;
}

static int add_losses(struct alert_look *l, uint32_t index, double share)
{
    const struct alert_rule *r = &l->rules->v[l->source->rules[index]];
    struct alert_finding f = {.service = l->service, .value = share, .limit = r->limit, .unit = ALERT_SHARE};

    f.summary = alert_printf(l, "%.1f %% of the profiles of %.*s are refused (limit %s)", share * 100,
                             (int) MIN(l->service.n, 300u), l->service.p, r->over);
    f.link = alert_printf(l, "senders");
    return alert_add_finding(l, index, &f);
}

int alert_look_presence(struct alert_look *l, struct err *e)
{
    struct alert_cached *c = alert_cache_at(l, "lost");
    bool now = false, before = l->source->each && c && c->until > l->eval->now;
    double share = read_losses(l, c);
    int r = has_profiles(l, l->from, l->to, &now, e);

    if (r == 0 && !now && !before) {
        r = has_profiles(l, l->from - l->source->baseline, l->from, &before, e);
        if (r == 0 && before && c)
            c->until = l->eval->now + PRESENCE_KEPT;
    }
    for (uint32_t i = 0; r == 0 && i < l->source->n_rules; i++) {
        const struct alert_rule *rule = &l->rules->v[l->source->rules[i]];

        if (!now && before)
            r = add_silence(l, i);
        else if (share > rule->limit)
            r = add_losses(l, i, share);
    }
    return r;
}
