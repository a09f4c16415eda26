/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `debug`: prints received data to stderr: a line per batch (basic), also a line per profile (normal), or everything
 * (detailed). Other signals: a line per request. Messages over the sampling limits are omitted, like in the Collector.
 */
#include <errno.h>
#include <pthread.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/batch.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"

struct debug_config {
    int verbosity;
    int64_t sampling_initial, sampling_thereafter;
    bool use_internal_logger;
};

struct debug {
    struct instance instance;
    struct sink sink;
    struct metric *sent;
    const struct debug_config *config;
    pthread_mutex_t lock; /* protects the sampling state */
    int64_t second;
    uint64_t seen;
};

static const char *const verbosities[] = {"basic", "normal", "detailed", NULL};

static const struct option options[] = {
    {"verbosity", OPT_ENUM, offsetof(struct debug_config, verbosity), "basic", "level of detail", .words = verbosities},
    {"sampling_initial", OPT_INT, offsetof(struct debug_config, sampling_initial), "2",
     "number of batches logged per second"},
    {"sampling_thereafter", OPT_INT, offsetof(struct debug_config, sampling_thereafter), "1",
     "after that, log every n-th batch; 0: none"},
    {"use_internal_logger", OPT_BOOL, offsetof(struct debug_config, use_internal_logger), "true",
     "false: write to stdout instead of stderr"},
    {"output_paths", OPT_IGNORED, 0, NULL, "see use_internal_logger"},
    {"sending_queue", OPT_IGNORED, 0, NULL, "this exporter has no queue"},
    {0},
};

static bool sampled(struct debug *d)
{
    int64_t now = clock_mono() / NS_PER_S;
    bool print;

    pthread_mutex_lock(&d->lock);
    if (now != d->second) {
        d->second = now;
        d->seen = 0;
    }
    d->seen++;
    print = d->seen <= (uint64_t) d->config->sampling_initial ||
           (d->config->sampling_thereafter > 0 &&
            (d->seen - (uint64_t) d->config->sampling_initial) % (uint64_t) d->config->sampling_thereafter == 0);
    pthread_mutex_unlock(&d->lock);
    return print;
}

static void print_kvs(struct buf *out, const char *indent, const struct kvs *kvs)
{
    static const char *const kinds[] = {"Empty", "Str", "Bool", "Int", "Double", "Bytes", "Slice", "Map"};

    for (uint32_t i = 0; i < kvs->n; i++) {
        buf_printf(out, "%s-> %.*s: %s(", indent, STR_FMT(kvs->v[i].key), kinds[kvs->v[i].value.kind]);
        value_print(out, &kvs->v[i].value);
        buf_puts(out, ")\n");
    }
}

static void print_attrs(struct buf *out, const struct batch *b, struct run attrs)
{
    for (uint32_t i = 0; i < attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[attrs.off + i]];

        buf_printf(out, "%s%.*s=", i ? ", " : "", STR_FMT(batch_string(b, a->key)));
        value_print(out, &a->value);
    }
}

static void print_location(struct buf *out, const struct batch *b, uint32_t index)
{
    const struct dict *d = &b->dict;
    const struct location *l = &d->locations[index];

    buf_printf(out, "            0x%llx", (unsigned long long) l->address);
    for (uint32_t i = 0; i < l->lines.n; i++) {
        const struct line *line = &d->lines[l->lines.off + i];
        const struct function *f = &d->functions[line->function];

        buf_printf(out, " %.*s %.*s:%lld", STR_FMT(d->strings[f->name]), STR_FMT(d->strings[f->filename]),
                   (long long) line->line);
    }
    if (l->mapping)
        buf_printf(out, " [%.*s]", STR_FMT(d->strings[d->mappings[l->mapping].filename]));
    buf_putc(out, '\n');
}

static void print_sample(struct buf *out, const struct batch *b, const struct profile *p, uint32_t i)
{
    const struct sample *s = &b->samples[p->samples.off + i];
    struct run stack = b->dict.stacks[s->stack];

    buf_printf(out, "        Sample #%u: values [", i);
    for (uint32_t k = 0; k < s->values.n; k++)
        buf_printf(out, "%s%lld", k ? " " : "", (long long) b->values[s->values.off + k]);
    buf_printf(out, "] timestamps %u attributes {", s->timestamps.n);
    print_attrs(out, b, s->attrs);
    buf_puts(out, "}\n");
    for (uint32_t k = 0; k < stack.n; k++)
        print_location(out, b, b->dict.indices[stack.off + k]);
}

static void print_profile(struct buf *out, const struct batch *b, const struct profile *p, bool detailed)
{
    buf_puts(out, "    Profile id=");
    hex_encode(out, p->id, sizeof p->id);
    for (uint32_t i = 0; i < p->n_types; i++)
        buf_printf(out, " type=%.*s/%.*s", STR_FMT(batch_string(b, p->types[i].type)),
                   STR_FMT(batch_string(b, p->types[i].unit)));
    buf_printf(out, " samples=%u duration=%lldns period=%lld time=", p->samples.n, (long long) p->duration_ns,
               (long long) p->period);
    clock_format(out, p->time_ns);
    buf_puts(out, " {");
    print_attrs(out, b, p->attrs);
    buf_puts(out, "}\n");
    for (uint32_t i = 0; detailed && i < p->samples.n; i++)
        print_sample(out, b, p, i);
}

static void print_batch(struct buf *out, const struct batch *b, bool detailed)
{
    for (uint32_t i = 0; i < b->n_resources; i++) {
        const struct resource *r = &b->resources[i];

        buf_printf(out, "ResourceProfiles #%u\n", i);
        print_kvs(out, "     ", &r->attrs);
        for (uint32_t k = 0; k < r->scopes.n; k++) {
            const struct scope *s = &b->scopes[r->scopes.off + k];

            buf_printf(out, "  ScopeProfiles #%u %.*s %.*s\n", k, STR_FMT(s->name), STR_FMT(s->version));
            print_kvs(out, "     ", &s->attrs);
            for (uint32_t j = 0; j < s->profiles.n; j++)
                print_profile(out, b, &b->profiles[s->profiles.off + j], detailed);
        }
    }
}

static void print_profiles(struct debug *d, const struct batch *b)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    buf_init(&out, 64 << 20);
    if (d->config->verbosity > 0)
        print_batch(&out, b, d->config->verbosity == 2);
    if (d->config->use_internal_logger)
        log_info("Profiles resource_profiles=%u profiles=%u sample_records=%u", b->n_resources, b->n_profiles,
                 b->n_samples);
    if (buf_error(&out) == 0 && out.n)
        fd_write_all(d->config->use_internal_logger ? 2 : 1, out.p, out.n);
}

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct debug *d = container_of(s, struct debug, sink);
    const struct blob *b = data.blob;

    (void) ctx;
    metric_add(d->sent, b ? b->items : data.batch->n_samples);
    if (sampled(d)) {
        if (b)
            log_info("%s bytes=%zu %s=%u", signal_names[b->signal], b->n, signal_items[b->signal], b->items);
        else
            print_profiles(d, data.batch);
    }
    ack_ok(ack);
}

static void free_instance(struct instance *i)
{
    struct debug *d = container_of(i, struct debug, instance);

    pthread_mutex_destroy(&d->lock);
    mem_free(d);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    static const char *const names[SIGNALS] = {"otelcol_exporter_sent_profile_samples", "otelcol_exporter_sent_spans",
                                               "otelcol_exporter_sent_metric_points",
                                               "otelcol_exporter_sent_log_records"};
    struct debug *d = mem_zalloc(sizeof *d);

    (void) e;
    if (!d)
        return -ENOMEM;
    pthread_mutex_init(&d->lock, NULL);
    d->config = args->config;
    d->sink.consume = consume;
    d->sent = metrics_add(args->host->metrics, METRIC_COUNTER, names[args->signal], "Items sent", "exporter=\"%s\"",
                          args->id);
    d->instance = (struct instance){.id = args->id, .sink = &d->sink, .free = free_instance};
    *ret = &d->instance;
    return 0;
}

const struct component component_debug_exporter = {
    .kind = COMPONENT_EXPORTER,
    .name = "debug",
    .help = "logs received data to stderr",
    .signals = ALL_SIGNALS,
    .options = options,
    .config_size = sizeof(struct debug_config),
    .create = create,
};
