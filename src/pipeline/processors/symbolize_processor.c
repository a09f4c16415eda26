/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `symbolize`: adds functions, files and lines to native locations without lines, using the symbolizer that the program
 * provides. A lookup may take long, so it runs on a thread of its own; binaries that are not found are looked up again
 * only after a while. What cannot be resolved is left unchanged.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/identity.h"
#include "model/symbolizer.h"
#include "pipeline/delivery/worker.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"

enum { WAITING_MAX = 64 << 20, MISSING_MAX = 4096 };

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
    struct missing missing[MISSING_MAX]; /* by hash; on a collision the later one replaces the earlier one */
    struct metric *resolved, *unresolved;
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

/* The batch being built: copies of the tables with room for more entries. */
struct work_tables {
    struct batch *x;
    uint32_t cap_lines, cap_functions, cap_strings;
    struct map functions;
};

static void *grow(struct arena *a, void *old, uint32_t n, uint32_t *cap, uint32_t more, size_t size)
{
    uint32_t want = n + more;
    void *p = old;

    if (want <= *cap)
        return old;
    *cap = MAX(want, n + n / 2 + 64);
    p = arena_alloc(a, (size_t) *cap * size);
    if (p && n)
        memcpy(p, old, (size_t) n * size);
    return p;
}

static int add_string(struct work_tables *t, struct str s, uint32_t *ret)
{
    struct dict *d = &t->x->dict;
    struct str *v;

    if (!s.n) {
        *ret = 0;
        return 0;
    }
    v = grow(&t->x->arena, d->strings, d->n_strings, &t->cap_strings, 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    d->strings = v;
    v[d->n_strings] = arena_str(&t->x->arena, s);
    if (!v[d->n_strings].p)
        return -ENOMEM;
    *ret = d->n_strings++;
    return 0;
}

/* Adds one entry per function and file of this batch, found by the hash of its names. */
static int add_function(struct work_tables *t, const struct symbol_frame *f, uint32_t *ret)
{
    struct dict *d = &t->x->dict;
    uint64_t h =
        hash64_str(f->function) ^ hash_mix(hash64_str(f->file) ^ (uint64_t) f->start_line, 0x9e3779b97f4a7c15ull);
    struct function *v, fn = {.start_line = f->start_line};
    int r;

    for (struct map_pos p = map_find(&t->functions, h); p.index != MAP_NONE; p = map_next(&t->functions, p)) {
        const struct function *o = &d->functions[p.index];

        if (str_eq(d->strings[o->name], f->function) && str_eq(d->strings[o->filename], f->file) &&
            o->start_line == f->start_line) {
            *ret = p.index;
            return 0;
        }
    }
    r = add_string(t, f->function, &fn.name);
    if (r == 0)
        r = add_string(t, f->system_name, &fn.system_name);
    if (r == 0)
        r = add_string(t, f->file, &fn.filename);
    if (r < 0)
        return r;
    v = grow(&t->x->arena, d->functions, d->n_functions, &t->cap_functions, 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    d->functions = v;
    v[d->n_functions] = fn;
    r = map_insert(&t->functions, h, d->n_functions);
    *ret = d->n_functions++;
    return r;
}

static int set_frames(struct work_tables *t, struct location *l, const struct symbol_frame *frames, uint32_t n)
{
    struct dict *d = &t->x->dict;
    struct line *v = grow(&t->x->arena, d->lines, d->n_lines, &t->cap_lines, n, sizeof *v);

    if (!v)
        return -ENOMEM;
    d->lines = v;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t fn = 0;
        int r = add_function(t, &frames[i], &fn);

        if (r < 0)
            return r;
        v[d->n_lines + i] = (struct line){fn, frames[i].line, frames[i].column};
    }
    l->lines = (struct run){d->n_lines, n};
    d->n_lines += n;
    return 0;
}

static struct missing *missing_slot(struct symbolize *s, struct str build_id, struct str path, uint64_t *ret_hash)
{
    *ret_hash = hash64_str(build_id) ^ hash_mix(hash64_str(path), 0xa0761d6478bd642full);
    return &s->missing[*ret_hash % MISSING_MAX];
}

/* Looks up the addresses of one mapping; `which` are locations. A binary that is not found is not an error. */
static int resolve_mapping(struct symbolize *s, struct work_tables *t, uint32_t mapping, const uint32_t *which,
                           uint64_t *addresses, uint32_t n)
{
    struct dict *d = &t->x->dict;
    const struct mapping *m = &d->mappings[mapping];
    struct symbol_request q = {.path = s->config->local_files ? d->strings[m->filename] : (struct str){0},
                               .build_id = identity_build_id(t->x, mapping),
                               .addresses = addresses,
                               .n_addresses = n,
                               .lines = s->config->lines};
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    uint64_t hash;
    struct missing *slot = missing_slot(s, q.build_id, q.path, &hash);
    int r = 0;

    if ((slot->hash == hash && clock_mono() < slot->until) || (!q.path.n && !q.build_id.n))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        addresses[i] = identity_elf_address(m, d->locations[which[i]].address);
    pthread_mutex_lock(&one_at_a_time);
    r = symbolizer_resolve(s->symbolizer, &q, &a, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    if (r < 0) {
        *slot = (struct missing){hash, clock_mono() + s->config->retry_missing};
        metric_add(s->unresolved, n);
        return 0;
    }
    r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        uint32_t first = a->first[i], frames = a->first[i + 1] - first;

        metric_add(frames ? s->resolved : s->unresolved, 1);
        if (frames)
            r = set_frames(t, &d->locations[which[i]], &a->frames[first], frames);
    }
    return r;
}

static bool wanted(const struct batch *b, uint32_t i)
{
    const struct location *l = &b->dict.locations[i];

    return l->mapping && l->address && !l->lines.n;
}

/* Resolves all locations that need it, sorted by mapping with a counting sort. */
static int resolve_all(struct symbolize *s, struct work_tables *t, struct arena *scratch)
{
    struct dict *d = &t->x->dict;
    uint32_t *count = arena_zalloc_array(scratch, d->n_mappings + 1, sizeof *count);
    uint32_t *which = arena_zalloc_array(scratch, d->n_locations, sizeof *which);
    uint64_t *addresses = arena_zalloc_array(scratch, d->n_locations, sizeof *addresses);
    struct location *copy = arena_alloc(&t->x->arena, d->n_locations * sizeof *copy);
    int r = 0;

    if (!count || !which || !addresses || !copy)
        return -ENOMEM;
    memcpy(copy, d->locations, d->n_locations * sizeof *copy);
    d->locations = copy;
    for (uint32_t i = 0; i < d->n_locations; i++)
        if (wanted(t->x, i))
            count[d->locations[i].mapping + 1]++;
    for (uint32_t i = 0; i < d->n_mappings; i++)
        count[i + 1] += count[i];
    for (uint32_t i = d->n_locations; i-- > 0;) /* fills each range from its end: count[m + 1] becomes its start */
        if (wanted(t->x, i))
            which[--count[d->locations[i].mapping + 1]] = i;
    for (uint32_t m = 1; r == 0 && m < d->n_mappings; m++) {
        uint32_t from = count[m + 1], n = 0;

        while (from + n < d->n_locations && wanted(t->x, which[from + n]) && d->locations[which[from + n]].mapping == m)
            n++;
        if (n)
            r = resolve_mapping(s, t, m, which + from, addresses, n);
    }
    return r;
}

static int symbolize(struct symbolize *s, struct batch *b, struct batch **ret)
{
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    struct work_tables t = {0};
    struct arena scratch;
    bool any = false;
    int r;

    for (uint32_t i = 1; i < b->dict.n_locations && !any; i++)
        any = wanted(b, i);
    if (!any) {
        *ret = batch_ref(b);
        return 0;
    }
    r = batch_share(b, &x);
    if (r < 0)
        return r;
    t.x = x;
    arena_init(&scratch, 0);
    r = resolve_all(s, &t, &scratch);
    arena_done(&scratch);
    map_done(&t.functions);
    if (r == 0)
        *ret = TAKE(x);
    return r;
}

static void handle(struct worker *wk, struct work *w, bool more)
{
    struct symbolize *s = container_of(wk, struct symbolize, worker);
    _cleanup_(batch_unrefp) struct batch *x = NULL;

    (void) more;
    if (symbolize(s, w->batch, &x) < 0)
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
