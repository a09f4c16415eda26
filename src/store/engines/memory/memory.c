/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `memory`: appending, listing and deleting; see memory.h. */
#include "store/engines/memory/memory.h"
#include "store/store_spans.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/identity.h"
#include "model/semconv.h"
#include "store/store_callers.h"

static struct memory_store *to_memory(struct store *s)
{
    return container_of(s, struct memory_store, store);
}

static int64_t now_of(const struct memory_store *m)
{
    return m->config.now ? m->config.now() : clock_wall();
}

static int memory_open(const struct store_config *c, struct store **ret, struct err *e)
{
    struct memory_store *m = mem_zalloc(sizeof *m);

    if (!m)
        return err_set(e, -ENOMEM, "out of memory");
    m->config = *c;
    pthread_mutex_init(&m->lock, NULL);
    intake_limits_init(&m->limits, c);
    m->choice = (struct label_choice){.allow = m->limits.allow, .values = c->label_values};
    m->limits.choice = &m->choice;
    dedup_init(&m->dedup, c->dedup_max ? c->dedup_max : 1000000, c->dedup_window ? c->dedup_window : 86400 * NS_PER_S);
    arena_init(&m->arena, 0);
    *ret = &m->store;
    return 0;
}

static void memory_close(struct store *s)
{
    struct memory_store *m = to_memory(s);

    for (uint32_t i = 0; i < m->n; i++)
        batch_unref(m->items[i].batch);
    mem_free(m->items);
    dedup_done(&m->dedup);
    intake_memo_done(&m->memo);
    label_choice_done(&m->choice);
    cumulative_done(&m->cumulative);
    arena_done(&m->arena);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

static struct labels *keep_labels(struct memory_store *m, const struct labels *l)
{
    struct labels *out = arena_zalloc(&m->arena, sizeof *out);

    if (!out)
        return NULL;
    out->v = arena_zalloc_array(&m->arena, l->n + 1, sizeof *out->v);
    if (!out->v)
        return NULL;
    for (; out->n < l->n; out->n++) {
        out->v[out->n].name = arena_str(&m->arena, l->v[out->n].name);
        out->v[out->n].value = arena_str(&m->arena, l->v[out->n].value);
        if (!out->v[out->n].name.p || !out->v[out->n].value.p)
            return NULL;
    }
    return out;
}

/* The names of a type that wick does not know may be of the request's arena. */
static int keep_type(struct memory_store *m, struct type *t)
{
    struct str *const names[] = {&t->name, &t->unit, &t->pprof_type, &t->pprof_unit, &t->title};

    if (type_is_known(t))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct str copy = arena_str(&m->arena, *names[i]);

        if (names[i]->n && !copy.p)
            return -ENOMEM;
        *names[i] = copy;
    }
    return 0;
}

static int keep_item(struct memory_store *m, struct batch *b, const struct intake *in, const struct intake_profile *p,
                     const struct intake_item *src, const char *tenant)
{
    const struct intake_resource *res = &in->resources[p->resource];
    const struct profile *prof = &b->profiles[p->profile];
    struct memory_item *it;
    int r = array_reserve(m->items, m->cap, (size_t) m->n + 1, UINT32_MAX - 1);

    if (r < 0)
        return r;
    it = &m->items[m->n];
    *it = (struct memory_item){.batch = b, .in = *src, .tenant = tenant, .time_ns = p->time_ns};
    it->labels = keep_labels(m, &res->labels);
    it->labels_id = res->labels_id;
    it->instance = res->instance;
    it->group = prof->n_types > 1 || prof->group ? (uint32_t) (p->key.lo ^ prof->group) | 1 : 0;
    if (src->values) {
        it->in.values = arena_alloc(&m->arena, (prof->samples.n + 1) * sizeof *src->values);
        if (it->in.values)
            memcpy(it->in.values, src->values, prof->samples.n * sizeof *src->values);
    }
    if (!it->labels || (src->values && !it->in.values) || keep_type(m, &it->in.type) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < prof->samples.n; i++)
        it->value = wrap_add(it->value, intake_value(b, &it->in, prof->samples.off + i));
    batch_ref(b);
    m->n++;
    m->stats.samples += prof->samples.n;
    return 0;
}

static int keep_profile(struct memory_store *m, struct batch *b, const struct intake *in,
                        const struct intake_profile *p, const char *tenant, struct arena *a)
{
    int r;

    if (p->has_key && dedup_has(&m->dedup, p->key)) {
        m->stats.duplicates++;
        return 0;
    }
    r = intake_difference(b, in, p, &m->cumulative, a);
    for (uint32_t i = 0; r >= 0 && i < p->n_items; i++)
        r = keep_item(m, b, in, p, &in->items[p->first_item + i], tenant);
    if (r >= 0 && p->has_key)
        r = dedup_add(&m->dedup, p->key, m->limits.now);
    if (r < 0)
        return r;
    m->stats.oldest_ns = m->stats.profiles ? MIN(m->stats.oldest_ns, p->time_ns) : p->time_ns;
    m->stats.newest_ns = MAX(m->stats.newest_ns, p->time_ns);
    m->stats.profiles++;
    return r;
}

static void memory_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    struct memory_store *m = to_memory(s);
    struct ack_result result = {.status = SINK_OK};
    struct fingerprints prints;
    struct arena a;
    struct intake in;
    const char *tenant;
    int r;

    arena_init(&a, 0);
    pthread_mutex_lock(&m->lock);
    m->limits.now = now_of(m);
    tenant = arena_cstr(&m->arena, str_from(ctx->tenant));
    r = tenant ? fingerprints_init(&prints, b, &a) : -ENOMEM;
    if (r == 0)
        r = intake_plan(&prints, ctx, &m->limits, &m->memo, &a, &in);
    for (uint32_t i = 0; r >= 0 && i < in.n_profiles; i++)
        r = keep_profile(m, b, &in, &in.profiles[i], tenant, &a);
    if (r >= 0) {
        m->stats.rejected += in.rejected;
        result.rejected = in.rejected;
        snprintf(result.message, sizeof result.message, "%s", in.message);
    }
    pthread_mutex_unlock(&m->lock);
    arena_done(&a);
    if (r < 0)
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "out of memory");
    else
        ack_complete(ack, &result);
}

/* --- matching --- */

bool memory_item_matches(const struct memory_store *m, const struct memory_item *it, const struct store_query *q,
                         const struct match *match, const struct store_column *c)
{
    (void) m;
    if (strcmp(it->tenant, q->tenant) != 0 || it->time_ns < c->from || it->time_ns >= c->to)
        return false;
    if (!match_series(match, it->in.type.name, it->labels))
        return false;
    return !q->has_profile ||
           id128_eq(q->profile, match_profile_handle(it->labels_id, it->instance, it->in.type.name, it->time_ns,
                                                     it->batch->profiles[it->in.profile].duration_ns, it->value));
}

/* Whether any part of the sample was taken when the column says. */
static bool was_taken(const struct memory_item *it, const struct sample *s, const struct store_column *c)
{
    bool stamped = intake_is_stamped(&it->in, s), any = !stamped && store_column_taken(c, it->time_ns);

    for (uint32_t i = 0; stamped && !any && i < s->timestamps.n; i++)
        any = store_column_taken(c, (int64_t) it->batch->timestamps[s->timestamps.off + i]);
    return any;
}

int64_t memory_sample_value(const struct memory_item *it, uint32_t index, const struct match *match)
{
    const struct batch *b = it->batch;
    const struct sample *s = &b->samples[index];
    int64_t sum = 0;

    if (!match->column->taken_to || !intake_is_stamped(&it->in, s))
        return intake_value(b, &it->in, index);
    for (uint32_t i = 0; i < s->timestamps.n; i++)
        if (store_column_taken(match->column, (int64_t) b->timestamps[s->timestamps.off + i]))
            sum = wrap_add(sum, s->values.n ? b->values[s->values.off + i] : 1);
    return intake_scale(sum, it->in.scale);
}

bool memory_sample_matches(const struct memory_item *it, const struct sample *s, const struct store_query *q,
                           const struct match *match)
{
    const struct link *l = &it->batch->dict.links[s->link];

    if (q->has_trace && memcmp(l->trace_id, q->trace_id, 16) != 0)
        return false;
    if (q->has_span && memcmp(l->span_id, q->span_id, 8) != 0)
        return false;
    if (match->spans && !store_span_set_has(match->spans, l))
        return false;
    if (match->column->taken_to && !was_taken(it, s, match->column))
        return false;
    for (uint32_t i = 0; i < match->n_detail; i++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;

        if (labels_get(it->labels, match->detail[i]->name).n)
            continue; /* match_series() */
        memory_find_attr(it, s, match->detail[i]->name, &text);
        if (!matcher_matches(match->detail[i], buf_str(&text)))
            return false;
    }
    return true;
}

/* --- listing --- */

/* Adds item i if it is the first one of its series: 1, or 0, or -ENOMEM. */
static int add_series(const struct memory_store *m, struct map *seen, uint32_t i)
{
    const struct memory_item *it = &m->items[i];
    uint64_t hash = hash64_id(it->labels_id) ^ hash64_str(it->in.type.name);
    int r;

    for (struct map_pos p = map_find(seen, hash); p.index != MAP_NONE; p = map_next(seen, p))
        if (id128_eq(m->items[p.index].labels_id, it->labels_id) &&
            str_eq(m->items[p.index].in.type.name, it->in.type.name))
            return 0;
    r = map_insert(seen, hash, i);
    return r < 0 ? r : 1;
}

static int memory_each_series(struct store *s, const struct store_range *range, store_series_fn fn, void *ctx)
{
    struct memory_store *m = to_memory(s);
    _cleanup_(map_done) struct map seen = MAP_INIT;
    int r = 0;

    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; r == 0 && i < m->n; i++) {
        const struct memory_item *it = &m->items[i];

        if (strcmp(it->tenant, range->tenant) != 0 || it->time_ns < range->from || it->time_ns >= range->to)
            continue;
        r = add_series(m, &seen, i);
        if (r > 0)
            r = fn(ctx, &it->in.type, it->labels);
    }
    pthread_mutex_unlock(&m->lock);
    return r;
}

int memory_profiles(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e)
{
    struct memory_store *m = to_memory(s);
    struct match match;
    int r = match_column(&match, &q->columns[0], m->limits.allow, false, e);

    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; r == 0 && i < m->n; i++) {
        const struct memory_item *it = &m->items[i];
        const struct profile *p = &it->batch->profiles[it->in.profile];
        struct store_profile out = {
            .time_ns = it->time_ns, .duration_ns = p->duration_ns, .type = &it->in.type, .labels = it->labels};

        if (str_is(batch_string(it->batch, p->period_type.unit), "nanoseconds"))
            out.period_ns = p->period;

        if (!memory_item_matches(m, it, q, &match, &q->columns[0]))
            continue;
        for (uint32_t k = 0; k < p->samples.n; k++)
            if (memory_sample_matches(it, &it->batch->samples[p->samples.off + k], q, &match)) {
                out.value = wrap_add(out.value, memory_sample_value(it, p->samples.off + k, &match));
                out.n_samples++;
            }
        if (!out.n_samples && (match.n_detail || match.column->taken_to || store_query_by_span(q)))
            continue;
        memcpy(out.id, p->id, 16);
        out.handle =
            match_profile_handle(it->labels_id, it->instance, it->in.type.name, it->time_ns, p->duration_ns, it->value);
        r = fn(ctx, &out);
    }
    pthread_mutex_unlock(&m->lock);
    return r;
}

/* --- changing --- */

static void drop_items(struct memory_store *m, bool (*drop)(const struct memory_item *, const void *), const void *arg)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        if (drop(&m->items[i], arg))
            batch_unref(m->items[i].batch);
        else
            m->items[n++] = m->items[i];
    }
    m->n = n;
}

struct deletion {
    const struct store_column *what;
    const struct match *match;
    const char *tenant;
};

static bool is_deleted(const struct memory_item *it, const void *arg)
{
    const struct deletion *d = arg;

    return strcmp(it->tenant, d->tenant) == 0 && it->time_ns >= d->what->from && it->time_ns < d->what->to &&
           match_series(d->match, it->in.type.name, it->labels);
}

static int memory_delete(struct store *s, const char *tenant, const struct store_column *what, struct err *e)
{
    struct memory_store *m = to_memory(s);
    struct match match;
    struct deletion d = {what, &match, tenant};
    int r = match_init(&match, what->selector, m->limits.allow, false, e);

    if (r == 0 && match.n_detail)
        r = err_set(e, -EINVAL, "delete selects by series labels, and '%.*s' is not one",
                    STR_FMT(match.detail[0]->name));
    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    drop_items(m, is_deleted, &d);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

struct ageing {
    const struct store_config *config;
    int64_t now;
};

static bool is_too_old(const struct memory_item *it, const void *arg)
{
    const struct ageing *g = arg;
    int64_t keep = g->config->keep ? g->config->keep : 30 * 86400 * NS_PER_S;
    struct str service = labels_get(it->labels, STR(SEMCONV_SERVICE_NAME));

    for (uint32_t i = 0; i < g->config->n_services; i++)
        if (str_is(service, g->config->services[i].service))
            keep = keep < 0 ? g->config->services[i].keep : MIN(keep, g->config->services[i].keep);
    return keep >= 0 && it->time_ns < g->now - keep;
}

static int memory_retain(struct store *s, bool compact_all, struct err *e)
{
    struct memory_store *m = to_memory(s);
    struct ageing g = {&m->config, now_of(m)};

    (void) compact_all;
    (void) e;
    pthread_mutex_lock(&m->lock);
    drop_items(m, is_too_old, &g);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

static int memory_stats(struct store *s, struct store_stats *ret)
{
    struct memory_store *m = to_memory(s);

    pthread_mutex_lock(&m->lock);
    *ret = m->stats;
    ret->memory_bytes = m->arena.used + m->cap * sizeof *m->items;
    pthread_mutex_unlock(&m->lock);
    return 0;
}

const struct store_ops store_memory = {
    .name = "memory",
    .help = "in memory only; lost when the process exits",
    .open = memory_open,
    .close = memory_close,
    .append = memory_append,
    .select = memory_select,
    .table = memory_table,
    .spans = memory_spans,
    .callers = callers_by_select,
    .series = memory_series,
    .each_series = memory_each_series,
    .attributes = memory_attributes,
    .profiles = memory_profiles,
    .export = memory_export,
    .delete = memory_delete,
    .retain = memory_retain,
    .stats = memory_stats,
};
