/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that are merged into one of a single type, see pyroscope.h: SelectMergeProfile, the formats pprof and dot. Here
 * is also what process_cpu:samples:count (and cpu:cpu:count of async-profiler) means. wick stores CPU time once, in nanoseconds, and a count of its samples is
 * that time divided by the sampling period of the profile. In flame graphs and series of profiles with different periods
 * the total is exact and the average period is used for the parts.
 */
#include <errno.h>
#include <math.h>

#include "base/wrap.h"
#include "codec/pprof.h"
#include "model/builder.h"
#include "model/convert.h"
#include "report/pprof_config.h"
#include "report/report_driver.h"
#include "server/pprof_json.h"
#include "server/pyroscope.h"

static struct store *store_of(struct call *c)
{
    return front_options(c->front)->store;
}

/* --- counts of samples --- */

bool py_counts(struct str type_id)
{
    struct str rest = type_id, name = str_cut(&rest, ':'), type = str_cut(&rest, ':');

    if (str_is(name, "cpu") && str_is(type, "cpu")) /* what Pyroscope makes of async-profiler's OTLP */
        return str_is(str_cut(&rest, ':'), "count");
    return str_is(name, "process_cpu") && str_is(type, "samples");
}

struct py_periods {
    double time, count;
};

static int add_period(void *ctx, const struct store_profile *p)
{
    struct py_periods *x = ctx;

    if (p->period_ns > 0 && p->value > 0) {
        x->time += (double) p->value;
        x->count += (double) p->value / (double) p->period_ns;
    }
    return 0;
}

int py_period(struct call *c, const struct query *q, uint32_t column, double *ret, struct err *e)
{
    struct store_query one = q->q;
    struct py_periods x = {0};
    int r;

    one.columns[0] = q->q.columns[column];
    one.n_columns = 1;
    r = store_of(c)->ops->profiles(store_of(c), &one, add_period, &x, e);
    *ret = x.count > 0 ? x.time / x.count : 1;
    return r;
}

int py_flame(struct call *c, const struct py_request *r, struct query *q, struct tree **ret, struct err *e)
{
    int result = query_flame(store_of(c), q, ret, e);

    if (result < 0 || !py_counts(r->left.type_id))
        return result;
    for (uint32_t k = 0; result == 0 && k < (*ret)->n_columns; k++) {
        double period;

        result = py_period(c, q, k, &period, e);
        for (uint32_t i = 0; result == 0 && i < (*ret)->n_nodes; i++)
            (*ret)->self[k][i] = clamp_double(round((double) (*ret)->self[k][i] / period));
    }
    if (result == 0)
        tree_sum_up(*ret);
    return result;
}

/* --- one profile of everything --- */

struct exporting_parts {
    struct call *call;
    struct builder *b;
};

static int export_part(void *ctx, struct query *q, struct err *e)
{
    struct exporting_parts *x = ctx;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int result = query_export(store_of(x->call), q, &b, e);

    return result < 0 ? result : builder_append(x->b, b);
}

/* Multiplies or divides the values of a profile's samples. */
static void scale_values(struct batch *b, const struct profile *p, int64_t by, bool divide)
{
    for (uint32_t i = 0; i < p->samples.n; i++) {
        const struct run *v = &b->samples[p->samples.off + i].values;

        for (uint32_t k = 0; k < v->n; k++) {
            int64_t *at = &b->values[v->off + k];

            *at = divide ? clamp_double(round((double) *at / (double) by)) : wrap_mul(*at, by);
        }
    }
}

/*
 * Leaves one type of values in a profile: the one that was asked for. A profile that the store returns has the type that it
 * was sent with and, for Go's CPU profiles, the count of samples before it; senders of other kinds send only one of them.
 */
static int keep_wanted(struct builder *b, struct profile *p, const struct type *wanted, bool counts)
{
    struct batch *all = builder_batch(b);
    uint32_t index = p->n_types > 1 && !counts ? 1 : 0;
    struct value_type *type = arena_zalloc(&all->arena, sizeof *type);
    struct type t;
    int64_t scale;

    if (!type)
        return -ENOMEM;
    for (uint32_t i = 0; p->n_types > 1 && i < p->samples.n; i++) {
        struct run *v = &all->samples[p->samples.off + i].values;

        *v = (struct run){v->off + MIN(index, v->n), index < v->n ? 1 : 0};
    }
    *type = p->types[index];
    type_lookup(&(struct type_spelling){.type = batch_string(all, type->type),
                                        .unit = batch_string(all, type->unit),
                                        .period_type = batch_string(all, p->period_type.type),
                                        .period_unit = batch_string(all, p->period_type.unit),
                                        .period = p->period},
                &t, &scale);
    if (counts && p->n_types == 1 && scale == 1)
        scale_values(all, p, MAX(p->period, 1), true);
    else if (!counts && scale != 1 && type_is_known(&t))
        scale_values(all, p, scale, false);
    p->types = type;
    p->n_types = 1;
    p->default_type = p->group = 0;
    if (!counts && type_is_known(wanted)) {
        type->type = builder_string(b, wanted->pprof_type);
        type->unit = builder_string(b, wanted->pprof_unit);
    } else if (counts) {
        type->type = builder_string(b, STR("samples"));
        type->unit = builder_string(b, STR("count"));
    }
    return 0;
}

/* Whether a stack begins, at its root, with the functions of the call site. */
static bool is_below(const struct batch *b, const struct sample *s, const struct pbjson_strs *site)
{
    const struct run *stack = &b->dict.stacks[s->stack];
    uint32_t at = 0;

    for (uint32_t i = stack->n; i-- > 0 && at < site->n;) {
        const struct location *l = &b->dict.locations[b->dict.indices[stack->off + i]];

        for (uint32_t k = l->lines.n; k-- > 0 && at < site->n; at++)
            if (!str_eq(batch_string(b, b->dict.functions[b->dict.lines[l->lines.off + k].function].name), site->v[at]))
                return false;
        if (!l->lines.n)
            return false;
    }
    return at == site->n;
}

static void keep_below(struct batch *b, struct profile *p, const struct pbjson_strs *site)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->samples.n; i++) {
        struct sample *s = &b->samples[p->samples.off + i];

        if (is_below(b, s, site))
            b->samples[p->samples.off + n++] = *s;
    }
    p->samples.n = n;
}

/* The location without the line of its innermost call, so that all samples in a function are one. */
static uint32_t without_line(struct builder *b, uint32_t location)
{
    struct batch *all = builder_batch(b);
    struct location l = all->dict.locations[location];
    struct line *lines = arena_zalloc_array(&all->arena, (size_t) l.lines.n + 1, sizeof *lines);

    if (!lines || !l.lines.n)
        return location;
    memcpy(lines, all->dict.lines + l.lines.off, l.lines.n * sizeof *lines);
    lines[0].line = lines[0].column = 0;
    return builder_location(b, &(struct builder_location){.mapping = l.mapping, .lines = lines, .n_lines = l.lines.n});
}

/* Stacks as Go's PGO reads them: the frames next to the leaf. */
static int trim_stacks(struct builder *b, const struct py_select *q)
{
    struct batch *all = builder_batch(b);

    for (uint32_t i = 0; i < all->n_samples; i++) {
        struct run stack = all->dict.stacks[all->samples[i].stack];
        uint32_t n = q->pgo_keep > 0 && q->pgo_keep < stack.n ? (uint32_t) q->pgo_keep : stack.n;
        uint32_t *copy = arena_zalloc_array(&all->arena, (size_t) n + 1, sizeof *copy);

        if (!copy)
            return -ENOMEM;
        memcpy(copy, all->dict.indices + stack.off, n * sizeof *copy);
        if (n && q->pgo_aggregate)
            copy[0] = without_line(b, copy[0]);
        all->samples[i].stack = builder_stack(b, copy, n);
    }
    return builder_error(b);
}

/* Divides the values of a profile's samples; carry is what rounding has lost so far. */
static double divide_samples(struct batch *b, const struct profile *p, double by, double carry)
{
    for (uint32_t i = 0; i < p->samples.n; i++) {
        const struct run *v = &b->samples[p->samples.off + i].values;

        for (uint32_t k = 0; k < v->n; k++) {
            double exact = (double) b->values[v->off + k] / by + carry, whole = round(exact);

            b->values[v->off + k] = clamp_double(whole);
            carry = exact - whole;
        }
    }
    return carry;
}

/* A gauge: the snapshots of each instance are averaged, so that the sum over all is the sum over the instances. What is lost
 * by rounding is carried over to the next sample. */
static void average_snapshots(struct batch *b)
{
    for (uint32_t i = 0; i < b->n_resources; i++) {
        double snapshots = 0, carry = 0;

        for (int pass = 0; pass < 2; pass++)
            for (uint32_t k = 0; k < b->resources[i].scopes.n; k++) {
                struct run profiles = b->scopes[b->resources[i].scopes.off + k].profiles;

                snapshots += pass ? 0 : profiles.n;
                for (uint32_t m = 0; pass && m < profiles.n; m++)
                    carry = divide_samples(b, &b->profiles[profiles.off + m], snapshots, carry);
            }
    }
}

/* Leaves out dictionary entries that no sample reaches any more. */
static int drop_unused(const struct builder_limits *limits, struct batch **all, struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct batch *smaller = NULL;
    int r = builder_new(limits, &b);

    if (r == 0)
        r = builder_append_part(b, *all, 0, (*all)->n_samples);
    if (r == 0)
        r = builder_finish(b, &smaller, e);
    if (r < 0)
        return r;
    batch_unref(*all);
    *all = smaller;
    return 0;
}

int py_merge(struct call *c, struct py_request *r, struct batch **ret, struct err *e)
{
    struct builder_limits limits = {.memory = front_options(c->front)->memory_limit};
    struct exporting_parts x = {.call = c};
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *all = NULL;
    bool fewer = r->left.call_site.n || r->left.pgo_keep || r->left.pgo_aggregate;
    struct type wanted;
    int result;

    type_by_name(r->left.type_id, &wanted);
    result = builder_new(&limits, &b);
    x.b = b;
    if (result == 0)
        result = py_each_part(c, r, false, export_part, &x, e);
    for (uint32_t i = 0; result == 0 && i < builder_batch(b)->n_profiles; i++)
        result = keep_wanted(b, &builder_batch(b)->profiles[i], &wanted, py_counts(r->left.type_id));
    if (result == 0 && wanted.rule == TYPE_GAUGE)
        average_snapshots(builder_batch(b));
    for (uint32_t i = 0; result == 0 && r->left.call_site.n && i < builder_batch(b)->n_profiles; i++)
        keep_below(builder_batch(b), &builder_batch(b)->profiles[i], &r->left.call_site);
    if (result == 0 && (r->left.pgo_keep || r->left.pgo_aggregate))
        result = trim_stacks(b, &r->left);
    if (result == 0)
        result = builder_finish(b, &all, e);
    if (result == 0 && fewer)
        result = drop_unused(&limits, &all, e);
    return result < 0 ? result : convert_to_single(all, ret, e);
}

int py_merge_profile(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *one = NULL;
    _cleanup_(buf_done) struct buf message = BUF_INIT;
    int result = py_merge(c, r, &one, e);

    if (result < 0 || !one->n_profiles)
        return result;
    if (!w->json)
        return pprof_encode_with(one, &one->profiles[0], call_damage(c), &c->out, e);
    result = pprof_encode_with(one, &one->profiles[0], call_damage(c), &message, e);
    return result < 0 ? result : pprof_json(&c->out, &w->first[0], buf_str(&message), e);
}

int py_dot(struct call *c, struct py_request *r, struct buf *out, struct err *e)
{
    struct report_command cmd = {"dot", REPORT_DOT, {0}};
    _cleanup_(batch_unrefp) struct batch *one = NULL;
    struct pprof_config config;
    struct report_run run;
    struct prof_pool pool;
    struct prof *p = NULL;
    int result = py_merge(c, r, &one, e);

    if (result < 0 || !one->n_profiles)
        return result;
    result = prof_pool_init(&pool);
    if (result < 0)
        return result;
    config_defaults(&config);
    if (r->left.max_nodes > 0)
        config.nodecount = MIN(r->left.max_nodes, 100000);
    result = prof_from_batch(&pool, one, &one->profiles[0], &p, e);
    if (result >= 0) {
        result = report_run_prepare(&run, p, &cmd, &config, NULL, e);
        if (result >= 0)
            result = report_print(&run.report, out, e);
        report_run_done(&run);
    }
    prof_free(p);
    prof_pool_done(&pool);
    return result < 0 ? result : 0;
}
