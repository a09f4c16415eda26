/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `filter`: drops resources, profiles or samples for which one of the conditions is true (ottl.h). The result shares
 * its tables with the original batch. A batch of which nothing is left is acknowledged and not passed on.
 */
#include <errno.h>

#include "base/mem.h"
#include "model/builder.h"
#include "model/sink.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"
#include "pipeline/processors/ottl.h"

enum { CONDITIONS_MAX = 256 };

struct conditions_config {
    struct option_strings resource, profile, sample;
};

struct filter_config {
    struct conditions_config profiles;
};

struct filter_processor {
    struct instance instance;
    struct sink sink;
    struct sink *next;
    struct arena arena;
    struct ottl *conditions[3][CONDITIONS_MAX];
    uint32_t n[3];
    struct metric *dropped;
};

static const struct option condition_options[] = {
    {"resource", OPT_STRINGS, offsetof(struct conditions_config, resource), NULL,
     "drop resources that match any of these conditions"},
    {"profile", OPT_STRINGS, offsetof(struct conditions_config, profile), NULL,
     "drop profiles that match any of these conditions"},
    {"sample", OPT_STRINGS, offsetof(struct conditions_config, sample), NULL,
     "drop samples that match any of these conditions"},
    {0},
};

static const struct option options[] = {
    {"profiles", OPT_TABLE, offsetof(struct filter_config, profiles), NULL, "OTTL conditions on profiles",
     .table = condition_options},
    {"error_mode", OPT_IGNORED, 0, NULL, "conditions cannot fail once they have been parsed"},
    {0},
};

static bool drop(const struct filter_processor *f, enum ottl_scope level, const struct ottl_subject *s)
{
    for (uint32_t i = 0; i < f->n[level]; i++)
        if (ottl_matches(f->conditions[level][i], s))
            return true;
    return false;
}

/* Appends the samples of p that are kept to out->samples. */
static void filter_samples(const struct filter_processor *f, struct ottl_subject *s, struct batch *out,
                           struct profile *p)
{
    struct run kept = {out->n_samples, 0};

    for (uint32_t i = 0; i < p->samples.n; i++) {
        s->sample = &s->batch->samples[p->samples.off + i];
        if (!drop(f, OTTL_SAMPLE, s))
            out->samples[kept.off + kept.n++] = *s->sample;
    }
    out->n_samples += kept.n;
    p->samples = kept;
    s->sample = NULL;
}

static void filter_scope(const struct filter_processor *f, struct ottl_subject *s, const struct scope *from,
                         struct batch *out)
{
    struct scope *to = &out->scopes[out->n_scopes];

    s->scope = from;
    *to = *from;
    to->profiles = (struct run){out->n_profiles, 0};
    for (uint32_t i = 0; i < from->profiles.n; i++) {
        struct profile p = s->batch->profiles[from->profiles.off + i];
        bool had = p.samples.n > 0;

        s->profile = &s->batch->profiles[from->profiles.off + i];
        if (drop(f, OTTL_PROFILE, s))
            continue;
        if (f->n[OTTL_SAMPLE])
            filter_samples(f, s, out, &p);
        if (had && !p.samples.n)
            continue;
        out->profiles[out->n_profiles++] = p;
        to->profiles.n++;
    }
    if (to->profiles.n)
        out->n_scopes++;
}

static int filter_batch(const struct filter_processor *f, struct batch *b, struct batch *out)
{
    struct ottl_subject s = {.batch = b};
    struct arena *a = &out->arena;

    out->scopes = arena_zalloc_array(a, b->n_scopes + 1, sizeof *out->scopes);
    out->profiles = arena_zalloc_array(a, b->n_profiles + 1, sizeof *out->profiles);
    if (f->n[OTTL_SAMPLE])
        out->samples = arena_zalloc_array(a, b->n_samples + 1, sizeof *out->samples);
    if (!out->scopes || !out->profiles || !out->samples)
        return -ENOMEM;
    out->n_resources = out->n_scopes = out->n_profiles = 0;
    if (f->n[OTTL_SAMPLE])
        out->n_samples = 0;
    for (uint32_t i = 0; i < b->n_resources; i++) {
        struct resource *to = &out->resources[out->n_resources];
        struct run scopes = b->resources[i].scopes;
        uint32_t first = out->n_scopes;

        s.resource = &b->resources[i];
        if (drop(f, OTTL_RESOURCE, &s))
            continue;
        *to = b->resources[i];
        for (uint32_t k = 0; k < scopes.n; k++)
            filter_scope(f, &s, &b->scopes[scopes.off + k], out);
        to->scopes = (struct run){first, out->n_scopes - first};
        if (to->scopes.n)
            out->n_resources++;
    }
    return 0;
}

static uint32_t count_samples(const struct batch *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_profiles; i++)
        n += b->profiles[i].samples.n;
    return n;
}

static void consume(struct sink *sink, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct filter_processor *f = container_of(sink, struct filter_processor, sink);
    _cleanup_(batch_unrefp) struct batch *x = NULL, *reached = NULL;
    int r = batch_share(data.batch, &x);

    if (r == 0)
        r = filter_batch(f, data.batch, x);
    if (r == 0 && x->n_profiles && count_samples(x) < count_samples(data.batch))
        r = builder_reached(x, &reached, NULL);
    if (r < 0) {
        ack_fail(ack, SINK_UNAVAILABLE, 0, "out of memory");
        return;
    }
    metric_add(f->dropped, (int64_t) count_samples(data.batch) - count_samples(x));
    if (!x->n_profiles)
        ack_ok(ack);
    else
        sink_consume(f->next, reached ? reached : x, ctx, ack);
}

static void free_instance(struct instance *i)
{
    struct filter_processor *f = container_of(i, struct filter_processor, instance);

    for (int level = 0; level < 3; level++)
        for (uint32_t k = 0; k < f->n[level]; k++)
            ottl_free(f->conditions[level][k]);
    arena_done(&f->arena);
    mem_free(f);
}

static int compile(struct filter_processor *f, enum ottl_scope level, const struct option_strings *list, struct err *e)
{
    int r = 0;

    if (list->n > CONDITIONS_MAX)
        return err_set(e, -E2BIG, "more than %d conditions", CONDITIONS_MAX);
    while (r == 0 && f->n[level] < list->n) {
        r = ottl_compile(str_from(list->v[f->n[level]]), level, &f->arena, &f->conditions[level][f->n[level]], e);
        if (r == 0)
            f->n[level]++;
    }
    return r;
}

static int create_filter(const struct filter_config *c, struct filter_processor **ret, struct err *e)
{
    struct filter_processor *f = mem_zalloc(sizeof *f);
    int r;

    if (!f)
        return -ENOMEM;
    arena_init(&f->arena, 4 << 20);
    r = compile(f, OTTL_RESOURCE, &c->profiles.resource, e);
    if (r == 0)
        r = compile(f, OTTL_PROFILE, &c->profiles.profile, e);
    if (r == 0)
        r = compile(f, OTTL_SAMPLE, &c->profiles.sample, e);
    if (r < 0) {
        free_instance(&f->instance);
        return r;
    }
    *ret = f;
    return 0;
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct filter_processor *f;
    int r = create_filter(args->config, &f, e);

    if (r < 0)
        return r;
    f->next = args->next[SIGNAL_PROFILES];
    f->sink.consume = consume;
    f->dropped = metrics_add(args->host->metrics, METRIC_COUNTER, "otelcol_processor_filter_profiles_filtered",
                             "Samples dropped", "filter=\"%s\"", args->id);
    f->instance = (struct instance){.id = args->id, .sink = &f->sink, .free = free_instance};
    *ret = &f->instance;
    return 0;
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    struct filter_processor *f = NULL;
    struct err sub = {0};
    int r = create_filter(config, &f, &sub);

    if (r < 0)
        return conf_error(conf_get(node, "profiles"), r, e, "%s", err_message(&sub, r));
    free_instance(&f->instance);
    return 0;
}

const struct component component_filter_processor = {
    .kind = COMPONENT_PROCESSOR,
    .name = "filter",
    .help = "drops data that matches a condition",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct filter_config),
    .check = check,
    .create = create,
};
