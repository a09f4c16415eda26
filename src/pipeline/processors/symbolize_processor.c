/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `symbolize`: adds functions, files and lines to native locations without lines, using the symbolizer that the program
 * provides. A lookup may take long, so it runs on a thread of its own; binaries that are not found are looked up again
 * only after a while. What cannot be resolved is left unchanged.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/batch_names.h"
#include "model/identity.h"
#include "model/symbolizer.h"
#include "pipeline/delivery/worker.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"

enum { WAITING_MAX = 64 << 20, MISSING_MAX = 4096 };
#define RETRY_SOON (10 * NS_PER_S) /* after a failure that may pass */

struct symbolize_config {
    bool lines, local_files;
    int64_t retry_missing;
};

struct missing {
    uint64_t hash; /* of build id and path */
    int64_t until;
};

struct symbolize {
    struct instance instance;
    const struct symbolize_config *config;
    struct worker worker;
    struct sink sink;
    struct sink *next;
    struct symbolizer *symbolizer;
    struct batch_resolver resolver;
    struct missing missing[MISSING_MAX]; /* by hash; on a collision the later one replaces the earlier one */
    struct metric *resolved, *unresolved;
    struct log_limit log_failed;
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER; /* a symbolizer may be used by one thread at a time */

static const struct option options[] = {
    {"lines", OPT_BOOL, offsetof(struct symbolize_config, lines), "true",
     "add files, lines and inlined functions, not only names"},
    {"local_files", OPT_BOOL, offsetof(struct symbolize_config, local_files), "false",
     "open the paths that profiles contain; enable only if every sender is trusted. Otherwise binaries are found by build id only"},
    {"retry_missing", OPT_DURATION, offsetof(struct symbolize_config, retry_missing), "10m",
     "look for a missing binary again after this time"},
    {0},
};

static struct missing *missing_slot(struct symbolize *s, struct str build_id, struct str path, uint64_t *ret_hash)
{
    *ret_hash = hash64_str(build_id) ^ hash_mix(hash64_str(path), 0xa0761d6478bd642full);
    return &s->missing[*ret_hash % MISSING_MAX];
}

/* Looks up the addresses of one mapping. A binary that is not found is not an error. */
static int resolve(struct batch_resolver *resolver, const struct batch *b, uint32_t mapping, uint64_t *addresses, uint32_t n,
                   struct symbol_answer **ret)
{
    struct symbolize *s = container_of(resolver, struct symbolize, resolver);
    const struct mapping *m = &b->dict.mappings[mapping];
    struct symbol_request q = {.path = s->config->local_files ? b->dict.strings[m->filename] : (struct str){0},
                               .build_id = identity_build_id(b, mapping),
                               .addresses = addresses,
                               .n_addresses = n,
                               .lines = s->config->lines};
    struct err why = {0};
    uint64_t hash, held;
    struct missing *slot = missing_slot(s, q.build_id, q.path, &hash);
    int r = 0;

    if ((slot->hash == hash && clock_mono() < slot->until) || (!q.path.n && !q.build_id.n))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        addresses[i] = identity_elf_address(m, addresses[i]);
    pthread_mutex_lock(&one_at_a_time);
    r = symbolizer_resolve(s->symbolizer, &q, ret, &why);
    pthread_mutex_unlock(&one_at_a_time);
    if (r < 0) {
        *slot =
            (struct missing){hash, clock_mono() + (symbolizer_may_pass(r) ? MIN(RETRY_SOON, s->config->retry_missing)
                                                                          : s->config->retry_missing)};
        if (symbolizer_may_pass(r) && log_limited(&s->log_failed, 10 * NS_PER_S, &held))
            log_warn("%s: build ID %.*s could not be looked up (%s); another attempt follows (%llu more like this)",
                     s->instance.id, (int) MIN(q.build_id.n, 64u), q.build_id.p, err_message(&why, r),
                     (unsigned long long) held);
        metric_add(s->unresolved, n);
        return 0;
    }
    for (uint32_t i = 0; i < n; i++)
        metric_add((*ret)->first[i + 1] > (*ret)->first[i] ? s->resolved : s->unresolved, 1);
    return 0;
}

static void handle(struct worker *wk, struct work *w, bool more)
{
    struct symbolize *s = container_of(wk, struct symbolize, worker);
    _cleanup_(batch_unrefp) struct batch *x = NULL;

    (void) more;
    if (batch_add_names(w->batch, &s->resolver, &x) < 0)
        ack_fail(w->ack, SINK_UNAVAILABLE, 0, "out of memory");
    else
        sink_consume(s->next, x, &w->kept.ctx, w->ack);
    work_free(w);
}

static void consume(struct sink *sink, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    worker_submit(&container_of(sink, struct symbolize, sink)->worker, data, ctx, ack);
}

static int start(struct instance *i, struct err *e)
{
    return worker_start(&container_of(i, struct symbolize, instance)->worker, e);
}

static void stop(struct instance *i)
{
    worker_stop(&container_of(i, struct symbolize, instance)->worker);
}

static void free_instance(struct instance *i)
{
    struct symbolize *s = container_of(i, struct symbolize, instance);

    worker_done(&s->worker);
    mem_free(s);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct metrics *m = args->host->metrics;
    struct symbolize *s;
    int r;

    if (!args->host->symbolizer)
        return err_set(e, -EOPNOTSUPP, "this program has no symbolizer");
    s = mem_zalloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    r = worker_init(&s->worker, "symbolize", WAITING_MAX);
    if (r < 0) {
        mem_free(s);
        return err_set(e, r, "cannot create a queue: %m");
    }
    s->config = args->config;
    s->worker.handle = handle;
    s->sink.consume = consume;
    s->next = args->next[SIGNAL_PROFILES];
    s->symbolizer = args->host->symbolizer;
    s->resolver.resolve = resolve;
    s->resolved = metrics_add(m, METRIC_COUNTER, "wick_symbolize_resolved_locations", "Locations that were symbolized",
                              "processor=\"%s\"", args->id);
    s->unresolved = metrics_add(m, METRIC_COUNTER, "wick_symbolize_unresolved_locations",
                                "Locations that could not be symbolized", "processor=\"%s\"", args->id);
    s->instance =
        (struct instance){.id = args->id, .sink = &s->sink, .start = start, .stop = stop, .free = free_instance};
    *ret = &s->instance;
    return 0;
}

const struct component component_symbolize_processor = {
    .kind = COMPONENT_PROCESSOR,
    .name = "symbolize",
    .help = "adds functions, files and lines to native frames",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct symbolize_config),
    .create = create,
};
