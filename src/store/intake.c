/* SPDX-License-Identifier: Apache-2.0 */
/* Plans what is stored of a batch: labels, types, deduplication keys, refusals and differenced values; see intake.h. */
#include "store/intake.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/identity.h"
#include "model/semconv.h"
#include "store/dedup.h"
#include "store/store.h"

#define DAY (86400 * NS_PER_S)
#define DURATION_MAX (3653 * DAY) /* of a profile */
#define VALUE_MAX 0x1p60          /* of a profile, all samples of one type together */

enum { MEMO_MAX = 32768, MEMO_BYTES = 16 << 20 };

void intake_limits_init(struct intake_limits *l, const struct store_config *c)
{
    l->allow = c->allow ? c->allow : labels_default_allow;
    l->max_late = c->max_late < 0 ? INT64_MAX : c->max_late ? c->max_late : 7 * DAY;
    l->max_early = c->max_early < 0 ? INT64_MAX : c->max_early ? c->max_early : 600 * NS_PER_S;
}

struct planning {
    const struct batch *b;
    struct fingerprints *prints;
    const struct sink_context *ctx;
    const struct intake_limits *limits;
    int64_t now;
    struct intake_memo *memo;
    struct arena *arena;
    struct intake *out;
    uint32_t resource, scope;
    struct id128 tenant;
    /* the type that was looked up last */
    struct value_type last, last_period;
    int64_t last_number, last_scale;
    struct run last_attrs;
    struct type last_type;
};

void intake_memo_done(struct intake_memo *m)
{
    mem_free(m->v);
    map_done(&m->map);
    arena_done(&m->arena);
    sources_done(&m->sources);
    *m = (struct intake_memo){0};
}

/* Labels point into the batch; remembered labels must be copied. */
static int keep_labels(struct intake_memo *m, struct labels *l)
{
    struct label *v = arena_alloc(&m->arena, (l->n + 1) * sizeof *v);

    if (!v)
        return -ENOMEM;
    for (uint32_t i = 0; i < l->n; i++) {
        v[i] = (struct label){l->v[i].name, arena_str(&m->arena, l->v[i].value)};
        if (l->v[i].value.n && !v[i].value.p)
            return -ENOMEM;
    }
    l->v = v;
    return 0;
}

static int make_resource(struct planning *p, const struct resource *r, struct intake_resource *out)
{
    const char *const *allow = p->limits->allow;
    int rc = 0;

    if (p->limits->choice)
        rc = label_choice_pick(p->limits->choice, p->tenant, r, p->now, p->arena, &allow);
    if (rc == 0)
        rc = labels_from_resource(p->b, r, allow, p->arena, &out->labels);
    if (rc < 0)
        return rc;
    out->labels_id = labels_id(&out->labels);
    out->sender = identity_resource(r);
    out->instance = sources_instance(r);
    return keep_labels(p->memo, &out->labels);
}

static int plan_resource(struct planning *p, uint32_t i)
{
    const struct resource *r = &p->b->resources[i];
    struct intake_resource *out = &p->out->resources[i];
    struct intake_memo *m = p->memo;
    int rc;

    out->print = fingerprints_resource(r);
    out->tenant = p->tenant;
    for (struct map_pos at = map_find(&m->map, hash64_id(out->print)); at.index != MAP_NONE; at = map_next(&m->map, at))
        if (id128_eq(m->v[at.index].print, out->print) && id128_eq(m->v[at.index].tenant, p->tenant)) {
            *out = m->v[at.index];
            return 0;
        }
    rc = make_resource(p, r, out);
    if (rc == 0)
        rc = array_reserve(m->v, m->cap, (size_t) m->n + 1, UINT32_MAX);
    if (rc == 0)
        rc = map_insert(&m->map, hash64_id(out->print), m->n);
    if (rc == 0)
        m->v[m->n++] = *out;
    return rc;
}

/* what: completes "profile of 'SERVICE' ...". */
static void reject(struct planning *p, const char *what)
{
    struct str service = labels_get(&p->out->resources[p->resource].labels, STR(SEMCONV_SERVICE_NAME));

    p->out->rejected++;
    if (!p->out->message[0])
        snprintf(p->out->message, sizeof p->out->message, "profile of '%.*s' %s", (int) MIN(service.n, 80),
                 service.p ? service.p : "", what);
}

/* Mutex and block profiles of Go have the same types and are distinguished by the profile's name; a type that wick does not
 * know keeps its whole Pyroscope ID if that does not follow from the type. */
static void name_type(const struct planning *pl, const struct profile *p, struct type *t)
{
    const struct attr *a = batch_attr(pl->b, p->attrs, STR(SEMCONV_PPROF_NAME));
    struct str name = a ? value_str(&a->value) : (struct str){0};
    struct str period = batch_string(pl->b, p->period_type.type), unit = batch_string(pl->b, p->period_type.unit);
    char *id;

    type_named(name, t);
    if (type_is_known(t) || !type_needs_id(name, t, period, unit))
        return;
    id = arena_printf(pl->arena, "%.*s:%.*s:%.*s:%.*s:%.*s", STR_FMT(name.n ? name : t->name), STR_FMT(t->name),
                      STR_FMT(t->unit), STR_FMT(period), STR_FMT(unit));
    if (id)
        t->name = t->title = str_from(id);
}

static void lookup_type(const struct planning *pl, const struct profile *p, uint32_t t, struct type *ret,
                        int64_t *scale)
{
    const struct batch *b = pl->b;

    type_lookup(&(struct type_spelling){.type = batch_string(b, p->types[t].type),
                                        .unit = batch_string(b, p->types[t].unit),
                                        .period_type = batch_string(b, p->period_type.type),
                                        .period_unit = batch_string(b, p->period_type.unit),
                                        .period = p->period},
                ret, scale);
    if (p->attrs.n || !type_is_known(ret))
        name_type(pl, p, ret);
}

/* Caches the last lookup, since the profiles of one request have the same few types. */
static void plan_lookup(struct planning *pl, const struct profile *p, uint32_t t, struct type *ret, int64_t *scale)
{
    if (pl->last_scale && p->types[t].type == pl->last.type && p->types[t].unit == pl->last.unit &&
        p->period_type.type == pl->last_period.type && p->period_type.unit == pl->last_period.unit &&
        p->period == pl->last_number && p->attrs.off == pl->last_attrs.off && p->attrs.n == pl->last_attrs.n) {
        *ret = pl->last_type;
        *scale = pl->last_scale;
        return;
    }
    lookup_type(pl, p, t, ret, scale);
    pl->last = p->types[t];
    pl->last_period = p->period_type;
    pl->last_number = p->period;
    pl->last_attrs = p->attrs;
    pl->last_type = *ret;
    pl->last_scale = *scale;
}

/* Whether the counts of (p, t), times scale, equal the values of (q, u), sample by sample. */
static bool is_twin(const struct batch *b, const struct profile *p, uint32_t t, int64_t scale, const struct profile *q,
                    uint32_t u)
{
    if (p->samples.n != q->samples.n)
        return false;
    for (uint32_t i = 0; i < p->samples.n; i++) {
        const struct sample *x = &b->samples[p->samples.off + i], *y = &b->samples[q->samples.off + i];

        if (x->stack != y->stack || x->link != y->link || x->attrs.off != y->attrs.off || x->attrs.n != y->attrs.n ||
            x->timestamps.n || y->timestamps.n ||
            intake_scale(batch_sample_value(b, p, x, t), scale) != batch_sample_value(b, q, y, u))
            return false;
    }
    return true;
}

/* Returns the profiles of p's group, which are adjacent (batch.h). Only those are examined, since a request may have
 * very many profiles. */
static struct run group_of(const struct planning *pl, const struct profile *p)
{
    const struct scope *scope = &pl->b->scopes[pl->scope];
    const struct profile *all = pl->b->profiles;
    uint32_t first = (uint32_t) (p - all), end = first + 1, last = scope->profiles.off + scope->profiles.n;

    while (p->group && first > scope->profiles.off && all[first - 1].group == p->group)
        first--;
    while (p->group && end < last && all[end].group == p->group)
        end++;
    return (struct run){first, end - first};
}

/* Finds the sibling type of canonical name `name` with scale 1 that makes (p, t) redundant: in the same profile or the
 * same group. */
static bool find_exact_sibling(const struct planning *pl, const struct profile *p, uint32_t t, const struct type *type,
                               int64_t scale, bool *ret_equal)
{
    struct run group = group_of(pl, p);

    for (uint32_t i = group.off; i < group.off + group.n; i++) {
        const struct profile *q = &pl->b->profiles[i];

        for (uint32_t u = 0; u < q->n_types; u++) {
            struct type other;
            int64_t other_scale;

            if (q == p && u == t)
                continue;
            lookup_type(pl, q, u, &other, &other_scale);
            if (!str_eq(other.name, type->name) || other_scale != 1)
                continue;
            *ret_equal = is_twin(pl->b, p, t, scale, q, u);
            return true;
        }
    }
    return false;
}

/* The reverse: finds the count that (p, t) also represents. */
static void find_twin(const struct planning *pl, const struct profile *p, struct intake_item *it)
{
    struct run group = group_of(pl, p);

    for (uint32_t i = group.off; i < group.off + group.n; i++) {
        const struct profile *q = &pl->b->profiles[i];

        for (uint32_t u = 0; u < q->n_types; u++) {
            struct type other;
            int64_t scale;

            if (q == p && u == it->type_index)
                continue;
            lookup_type(pl, q, u, &other, &scale);
            if (scale > 1 && str_eq(other.name, it->type.name) && is_twin(pl->b, q, u, scale, p, it->type_index)) {
                it->has_twin = true;
                it->twin = q->types[u];
                it->twin_scale = scale;
                return;
            }
        }
    }
}

static void plan_type(struct planning *pl, uint32_t profile, uint32_t t)
{
    const struct profile *p = &pl->b->profiles[profile];
    struct intake_item *it = &pl->out->items[pl->out->n_items];
    bool equal = false;

    *it = (struct intake_item){.resource = pl->resource, .scope = pl->scope, .profile = profile, .type_index = t};
    plan_lookup(pl, p, t, &it->type, &it->scale);
    if (it->scale > 1 && find_exact_sibling(pl, p, t, &it->type, it->scale, &equal)) {
        if (equal)
            return;
        /* it carries information of its own: keep it under its own name */
        it->type =
            (struct type){.name = batch_string(pl->b, p->types[t].type), .unit = batch_string(pl->b, p->types[t].unit)};
        it->scale = 1;
    } else if (it->scale == 1) {
        find_twin(pl, p, it);
    }
    if (pl->ctx->cumulative && it->type.rule == TYPE_DELTA &&
        (str_starts(it->type.name, STR("alloc")) || str_starts(it->type.name, STR("lock")) ||
         str_starts(it->type.name, STR("block"))) &&
        type_is_known(&it->type))
        it->type.rule = TYPE_CUMULATIVE;
    pl->out->n_items++;
}

static bool has_spans(const struct batch *b, const struct profile *p)
{
    for (uint32_t i = 0; i < p->samples.n; i++)
        if (b->samples[p->samples.off + i].link)
            return true;
    return false;
}

static int64_t sum_of(const struct batch *b, const struct profile *p, const struct intake_item *it)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < p->samples.n; i++)
        sum = wrap_add(sum, intake_value(b, it, p->samples.off + i));
    return sum;
}

/* Splits an item in two: `counted` of its sum (0 < counted < sum) stays, and the rest becomes an item of the type that is not counted.
 * Each sample is split in the same ratio; what division leaves over is carried to the next one, so that the parts add up. */
static int split_item(struct planning *pl, struct intake_item *it, int64_t counted, int64_t sum,
                      const struct type *also)
{
    const struct profile *p = &pl->b->profiles[it->profile];
    struct intake_item *rest = &pl->out->items[pl->out->n_items];
    __int128 part = 0;
    int64_t *values = arena_zalloc_array(pl->arena, p->samples.n + 1, sizeof *values);

    it->has_twin = false; /* the count of periods is no longer a whole number */
    *rest = *it;
    rest->type = *also;
    rest->values = arena_zalloc_array(pl->arena, p->samples.n + 1, sizeof *values);
    if (!values || !rest->values)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->samples.n; i++) {
        int64_t v = batch_sample_value(pl->b, p, &pl->b->samples[p->samples.off + i], it->type_index);

        part = (__int128) v * counted + part % sum;
        values[i] = (int64_t) (part / sum);
        rest->values[i] = v - values[i];
    }
    it->values = values;
    pl->out->n_items++;
    return 0;
}

/* The time between two samples; 0 when it is not known. */
static int64_t period_of(const struct batch *b, const struct profile *p)
{
    struct type_spelling s = {.type = STR("samples"),
                              .unit = STR("count"),
                              .period_type = batch_string(b, p->period_type.type),
                              .period_unit = batch_string(b, p->period_type.unit),
                              .period = p->period};
    struct type t;
    int64_t ns;

    type_lookup(&s, &t, &ns);
    return str_is(t.unit, "nanoseconds") ? ns : 0;
}

/* Whether two sources of a process may send the same of it: what an SDK sends can be scraped, too. Wall-clock and off-CPU time are
 * looked at from inside or from outside. */
static bool is_counted_once(const struct type *t)
{
    return type_is_known(t) && !str_is(t->name, "wall") && !str_is(t->name, "offcpu") && !str_is(t->name, "cpu_also");
}

/* The type of what is not counted: cpu_also of cpu. */
static int type_of_rest(struct planning *pl, const struct type *t, struct type *ret)
{
    const char *name = arena_printf(pl->arena, "%.*s_also", STR_FMT(t->name));

    if (!name)
        return -ENOMEM;
    if (!type_by_name(str_from(name), ret)) {
        ret->unit = ret->pprof_unit = t->unit;
        ret->rule = t->rule;
    }
    return 0;
}

/* What another source sends of a process as well is stored, but not counted. */
static int plan_source(struct planning *pl, const struct profile *p, struct intake_profile *out)
{
    struct sources_profile from = {.start = out->time_ns, .period = period_of(pl->b, p)};
    uint32_t end = pl->out->n_items;
    struct type also;
    int64_t counted;
    int r = 0;

    from.end = out->time_ns + MIN(MAX(p->duration_ns, 0), SOURCES_DURATION_MAX);
    for (uint32_t i = out->first_item; r == 0 && i < end; i++) {
        struct intake_item *it = &pl->out->items[i];

        if (!is_counted_once(&it->type) || !sources_identify(pl->tenant, &pl->b->resources[pl->resource],
                                                             &pl->b->scopes[pl->scope], it->type.name, &from))
            continue;
        if (has_spans(pl->b, p))
            from.rank = SOURCES_SPANS;
        from.value =
            it->type.rule == TYPE_GAUGE ? 0 : MAX(sum_of(pl->b, p, it), 0); /* of a state, all counts or nothing */
        r = type_of_rest(pl, &it->type, &also);
        if (r < 0)
            break;
        if (!sources_count(&pl->memo->sources, &from, &counted) || (from.value > 0 && counted <= 0))
            it->type = also;
        else if (counted < from.value)
            r = split_item(pl, it, counted, from.value, &also);
    }
    return r;
}

/* The key per tenant and resource: the ID that was sent, else the content with its times. Without either there is no
 * key. */
static void make_key(struct planning *pl, const struct profile *p, struct intake_profile *out)
{
    struct id128 res = pl->out->resources[pl->resource].sender, content;
    uint64_t id[2];

    memcpy(id, p->id, sizeof id);
    if (!(id[0] | id[1])) {
        if (!p->time_ns)
            return;
        content = fingerprints_profile(pl->prints, res, p);
    } else {
        content = print_add((struct id128){0, 1}, id[0], id[1]);
        for (uint32_t i = 0; i < p->n_types; i++) /* the types of one pprof may share its id */
            content = print_add_id(content, fingerprints_string(pl->prints, p->types[i].type));
    }
    out->key = dedup_key(p->time_ns, print_add_id(print_add_id(pl->tenant, res), content));
    out->has_key = true;
}

/* Whether a profile is too late or too early by the more lenient of the two clocks, since one of them may be wrong. */
static bool is_out_of_time(const struct planning *pl, int64_t time, int64_t *ret_age)
{
    const struct intake_limits *l = pl->limits;
    int64_t other = l->believed ? l->believed : pl->now, early;

    return time < 0 || time > CLOCK_MAX || __builtin_sub_overflow(MIN(pl->now, other), time, ret_age) ||
           *ret_age > l->max_late || __builtin_sub_overflow(time, MAX(pl->now, other), &early) || early > l->max_early;
}

/* Whether a value is negative where it cannot be. Times and counts of events are never negative; a difference of two
 * heaps may be. Types that wick does not know may have any value. */
static bool is_impossible(struct planning *pl, const struct profile *p, struct type *ret)
{
    int64_t scale;

    for (uint32_t t = 0; t < p->n_types; t++) {
        plan_lookup(pl, p, t, ret, &scale);
        if (ret->rule != TYPE_DELTA || str_eq(ret->title, ret->name)) /* the title of an unknown type is its name */
            continue;
        for (uint32_t i = 0; i < p->samples.n; i++)
            if (batch_sample_value(pl->b, p, &pl->b->samples[p->samples.off + i], t) < 0)
                return true;
    }
    return false;
}

/* Whether the values of one type add up to what no program can have used: 36 years of CPU time, an exabyte. Sums of a few such
 * profiles would not fit into 64 bits. */
static bool is_beyond(struct planning *pl, const struct profile *p, struct type *ret)
{
    double sum = 0;
    int64_t scale;

    for (uint32_t t = 0; t < p->n_types; t++) {
        plan_lookup(pl, p, t, ret, &scale);
        sum = 0;
        for (uint32_t i = 0; i < p->samples.n; i++)
            sum += fabs((double) batch_sample_value(pl->b, p, &pl->b->samples[p->samples.off + i], t) * (double) scale);
        if (sum > VALUE_MAX)
            return true;
    }
    return false;
}

/* Whether a profile is refused for its times or its values. */
static bool is_rejected(struct planning *pl, const struct profile *p, int64_t time)
{
    _cleanup_(buf_done) struct buf what = BUF_INIT;
    struct type type;
    int64_t age = 0;

    if (is_out_of_time(pl, time, &age)) {
        buf_puts(&what, "that starts at ");
        clock_format(&what, p->time_ns);
        buf_printf(&what, " is too %s", time < 0 || age > 0 ? "old" : "far in the future");
    } else if (p->duration_ns < 0 || p->duration_ns > DURATION_MAX) {
        buf_printf(&what, "has a duration of %lld ns, which is not from 0 to 10 years", (long long) p->duration_ns);
    } else if (is_impossible(pl, p, &type)) {
        buf_printf(&what, "has a negative value of %.*s", STR_FMT(type.name));
    } else if (is_beyond(pl, p, &type)) {
        buf_printf(&what, "has values of %.*s that add up to more than 2^60", STR_FMT(type.name));
    } else {
        return false;
    }
    reject(pl, buf_cstr(&what) ? what.p : "is refused");
    return true;
}

static int plan_profile(struct planning *pl, uint32_t i)
{
    const struct profile *p = &pl->b->profiles[i];
    struct intake_profile *out = &pl->out->profiles[pl->out->n_profiles];
    int64_t time = p->time_ns ? p->time_ns : pl->ctx->received_ns ? pl->ctx->received_ns : pl->now;
    int r;

    if (is_rejected(pl, p, time))
        return 0;
    *out = (struct intake_profile){
        .profile = i, .resource = pl->resource, .scope = pl->scope, .time_ns = time, .first_item = pl->out->n_items};
    make_key(pl, p, out);
    for (uint32_t t = 0; t < p->n_types; t++)
        plan_type(pl, i, t);
    r = plan_source(pl, p, out);
    out->n_items = pl->out->n_items - out->first_item;
    pl->out->n_profiles++;
    return r;
}

int intake_plan(struct fingerprints *prints, const struct sink_context *ctx, const struct intake_limits *limits,
                struct intake_memo *memo, struct arena *a, struct intake *ret)
{
    const struct batch *b = prints->batch;
    struct planning p = {.b = b,
                         .prints = prints,
                         .ctx = ctx,
                         .limits = limits,
                         .now = limits->now,
                         .memo = memo,
                         .arena = a,
                         .out = ret,
                         .tenant = hash128(ctx->tenant, strlen(ctx->tenant))};
    size_t n_types = 0;

    *ret = (struct intake){0};
    if (memo->n > MEMO_MAX || memo->arena.used > MEMO_BYTES)
        intake_memo_done(memo);
    for (uint32_t i = 0; i < b->n_profiles; i++)
        n_types += b->profiles[i].n_types;
    ret->resources = arena_zalloc_array(a, b->n_resources + 1, sizeof *ret->resources);
    ret->profiles = arena_alloc(a, (b->n_profiles + 1) * sizeof *ret->profiles);
    ret->items = arena_alloc(a, (2 * n_types + 1) * sizeof *ret->items); /* each may be split in two */
    if (!ret->resources || !ret->profiles || !ret->items)
        return -ENOMEM;
    for (uint32_t r = 0; r < b->n_resources; r++) {
        struct run scopes = b->resources[r].scopes;
        int rc = plan_resource(&p, r);

        if (rc < 0)
            return rc;
        p.resource = r;
        for (uint32_t s = 0; s < scopes.n; s++) {
            struct run profiles = b->scopes[scopes.off + s].profiles;

            p.scope = scopes.off + s;
            for (uint32_t i = 0; rc == 0 && i < profiles.n; i++)
                rc = plan_profile(&p, profiles.off + i);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* --- cumulative --- */

struct distinct {
    struct id128 *stacks;
    int64_t *values;
    uint32_t *of_sample;
    uint32_t n;
};

/* Samples with equal stacks (and different labels) share a counter. Go never splits a stack; other senders may. */
static int collect(const struct batch *b, const struct intake_item *it, struct arena *a, struct distinct *d)
{
    const struct profile *p = &b->profiles[it->profile];
    struct map map = MAP_INIT;
    int r = 0;

    d->stacks = arena_alloc(a, (p->samples.n + 1) * sizeof *d->stacks);
    d->values = arena_alloc(a, (p->samples.n + 1) * sizeof *d->values);
    d->of_sample = arena_alloc(a, (p->samples.n + 1) * sizeof *d->of_sample);
    if (!d->stacks || !d->values || !d->of_sample)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];
        struct run st = b->dict.stacks[s->stack];
        struct hash128_state h;
        struct id128 id;
        struct map_pos pos;

        hash128_init(&h, 3);
        for (uint32_t k = 0; k < st.n; k++) {
            id = identity_location(b, b->dict.indices[st.off + k]);
            hash128_u64(&h, id.hi);
            hash128_u64(&h, id.lo);
        }
        id = hash128_final(&h);
        for (pos = map_find(&map, hash64_id(id)); pos.index != MAP_NONE; pos = map_next(&map, pos))
            if (id128_eq(d->stacks[pos.index], id))
                break;
        if (pos.index == MAP_NONE) {
            r = map_insert(&map, hash64_id(id), d->n);
            pos.index = d->n;
            d->stacks[d->n] = id;
            d->values[d->n++] = 0;
        }
        d->of_sample[i] = pos.index;
        d->values[pos.index] = wrap_add(d->values[pos.index], batch_sample_value(b, p, s, it->type_index));
    }
    map_done(&map);
    return r;
}

static int difference_item(const struct batch *b, const struct intake *in, struct intake_item *it, struct cumulative *c,
                           struct arena *a)
{
    uint32_t n = b->profiles[it->profile].samples.n;
    struct distinct d = {0};
    struct hash128_state h;
    struct id128 who = in->resources[it->resource].sender;
    int r = collect(b, it, a, &d);

    if (r < 0)
        return r;
    it->values = arena_zalloc_array(a, n + 1, sizeof *it->values);
    if (!it->values)
        return -ENOMEM;
    hash128_init(&h, 4);
    hash128_u64(&h, who.hi);
    hash128_u64(&h, who.lo);
    hash128_bytes(&h, it->type.name.p, it->type.name.n);
    r = cumulative_difference(c, hash128_final(&h), d.stacks, d.values, d.n);
    for (uint32_t i = 0; r >= 0 && i < n; i++) { /* the delta of a stack is put on its first sample */
        it->values[i] = d.values[d.of_sample[i]];
        d.values[d.of_sample[i]] = 0;
    }
    it->type.rule = TYPE_DELTA;
    return r;
}

int intake_difference(const struct batch *b, const struct intake *in, const struct intake_profile *p,
                      struct cumulative *c, struct arena *a)
{
    int r = 0;

    for (uint32_t i = 0; r >= 0 && i < p->n_items; i++)
        if (in->items[p->first_item + i].type.rule == TYPE_CUMULATIVE)
            r = difference_item(b, in, &in->items[p->first_item + i], c, a);
    return r;
}
